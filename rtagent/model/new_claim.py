"""A new claim, before resources are assigned to it."""

from __future__ import annotations

from datetime import datetime, timedelta

from rtagent.model.change import Call
from rtagent.model.claim import ACTIVE, BUILDING, Claim
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest
from rtagent.model.usage import NOTHING, Usage

#: The resolution of stored times.
TICK = timedelta(microseconds=1)


def new_claim(
    state: NodeState,
    request: BuildRequest,
    call: Call,
    now: datetime,
    usage: Usage = NOTHING,
    *,
    active: bool = False,
) -> Claim:
    """Make a claim in state `building`, leased. Its uuid is the call's operation id.

    :param usage: vCPUs, CPUs, memory and disk that it requires.
    :param active: make it in state `active`, without a lease.
    """
    instance = request.instance
    return Claim(
        uuid=call.operation_id,
        host=state.node.host,
        node=state.node.hypervisor_hostname,
        node_uuid=state.node.uuid,
        owner_id=instance.uuid,
        state=ACTIVE if active else BUILDING,
        vcpus=usage.vcpus,
        pcpus=usage.pcpus,
        memory_mb=usage.memory_mb,
        disk_mb=usage.disk_mb,
        created_at=_after_others(state, instance.uuid, now),
        updated_at=now,
        expires_at=None if active else lease_end(state, now),
        revision=state.revision + 1,
        instance=instance.facts(),
        flavor=instance.flavor,
        image=instance.image,
        limits=request.limits,
        pci_requests=instance.pci_requests,
        extra_resource=request.extra_resource,
        tag=request.tag,
        allocations=request.allocations,
        provider_mapping=request.provider_mapping,
    )


def _after_others(state: NodeState, owner_id: str, now: datetime) -> datetime:
    """Return the time, or a later one if the owner has a claim from the future: a restart puts the
    claims of an owner into the order of their creation, even if the clock was set back meanwhile.
    """
    earliest = (claim.created_at + TICK for claim in state.claims_of(owner_id))
    return max(now, max(earliest, default=now))


def lease_end(state: NodeState, now: datetime) -> datetime:
    """The end of a lease that begins now."""
    return now + timedelta(seconds=state.policy.claim_expiry_time)
