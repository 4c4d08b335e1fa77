"""A new claim: the resources that are assigned to it, and its lease. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import asdict, replace

from rtagent.allocation.allocate import allocate
from rtagent.allocation.requirements import Requirements
from rtagent.allocation.shares import shares_of
from rtagent.model.assignment import AssignedQuantity
from rtagent.model.change import Call
from rtagent.model.claim import ACTIVE, BUILD, BUILDING, Claim
from rtagent.model.decision import Refused
from rtagent.model.mem_encryption import encryption_of
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest, Limits
from rtagent.model.usage import NOTHING, Usage

#: The resolution of stored times.
TICK = timedelta(microseconds=1)


def fitted_claim(
    state: NodeState,
    call: Call,
    now: datetime,
    request: BuildRequest,
    required: Requirements,
    *,
    kind: str = BUILD,
    quantities: Sequence[AssignedQuantity] = (),
    active: bool = False,
) -> Claim | Refused:
    """Make a claim of this kind, with the resources that the request requires.

    What the owner has here already is reused first.

    :param quantities: that another service has decided on, beyond those of the request.
    :param active: make it in state `active`, without a lease.
    :raises AllocationMismatch: its allocations are not what it needs.
    :raises NodeNotReady: the host was never observed.
    """
    shares = shares_of(state, request, required, kind)
    allocated = allocate(state, request.instance.uuid, required, shares)
    if isinstance(allocated, Refused):
        return allocated
    claim = new_claim(state, call, now, request, required.usage, active=active)
    claim = replace(claim, kind=kind, **asdict(allocated))
    return replace(
        claim,
        quantities=(*claim.quantities, *quantities),
        mem_encryption=claim.mem_encryption or encryption_of(each.pool for each in quantities),
    )


def new_claim(
    state: NodeState,
    call: Call,
    now: datetime,
    request: BuildRequest,
    usage: Usage = NOTHING,
    *,
    active: bool = False,
) -> Claim:
    """Make a claim without resources, in state `building`, leased. Its uuid is the operation id.

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
        limits=request.limits or Limits(),
        pci_requests=instance.pci_requests,
        extra_resource=request.extra_resource or {},
        tag=request.tag,
        allocations=request.allocations,
        provider_mapping=request.provider_mapping or {},
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
