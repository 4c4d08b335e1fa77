"""JSON views of assigned resources (virtual GPUs, persistent memory namespaces): owner, status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rtagent.api.owners import NO_OWNER, Owner, claim_of, owner_of
from rtagent.model.assigned_resources import AssignedResource
from rtagent.model.base import Value
from rtagent.model.claim import LEASED_STATES, RESOURCE, Claim
from rtagent.model.node_state import NodeState
from rtagent.pci.assigned_resources import missing, resource_users
from rtagent.pci.device_states import ALLOCATED, AVAILABLE, CLAIMED
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.resource_providers import provider_of_resource


class Resource(Value, frozen=True, kw_only=True):
    """One resource that is in an inventory or assigned to a claim.

    :ivar node: hypervisor_hostname.
    :ivar provider: the uuid of its resource provider in Placement.
    :ivar parent_addr: the PCI address of its device; None: the host itself has it.
    :ivar mdev_uuid: the uuid of its mediated device, which may not exist yet; None: it has none.
    :ivar status: ``available``, ``claimed`` or ``allocated``, as for a PCI device.
    :ivar owner_id: as for a PCI device, like ``name`` and ``claim_uuid``.
    :ivar present: whether the host has it.
    """

    node: str
    provider: str
    parent_addr: str | None
    resource_class: str
    identifier: str
    mdev_uuid: str | None
    status: str
    owner_id: str | None
    name: str | None
    claim_uuid: str | None
    present: bool


def resources(state: NodeState) -> Mapping[str, Any]:
    """``{"resources": [Resource]}``: those in inventories, then those that claims have and the host
    does not."""
    owners = resource_users(state)
    gone = (
        unit
        for claim in state.claims.values()
        for unit in missing(state.resource_inventories, claim.resources)
    )
    return {
        "resources": (
            *(_resource(state, unit, owners, present=True) for unit in _present(state)),
            *(
                _resource(state, unit, owners, present=False)
                for unit in sorted(set(gone), key=_name)
            ),
        )
    }


def _present(state: NodeState) -> Iterator[AssignedResource]:
    for each in state.resource_inventories:
        for name in each.identifiers:
            yield AssignedResource(
                resource_class=each.resource_class,
                identifier=name,
                parent_addr=each.provider or None,
            )


def _name(unit: AssignedResource) -> str:
    return unit.identifier


def _resource(
    state: NodeState, unit: AssignedResource, owners: Mapping[str, str], *, present: bool
) -> Resource:
    claim = claim_of(state, (RESOURCE, unit.identifier))
    owner = owner_of(state, owners.get(unit.identifier), claim)
    return Resource(
        node=state.node.hypervisor_hostname,
        provider=provider_of_resource(state, unit.parent_addr),
        parent_addr=unit.parent_addr,
        resource_class=unit.resource_class,
        identifier=unit.identifier,
        mdev_uuid=mdev_uuid(state.node.uuid, unit.identifier) if unit.parent_addr else None,
        status=_status(owner, claim),
        owner_id=owner.owner_id,
        name=owner.name,
        claim_uuid=owner.claim_uuid,
        present=present,
    )


def _status(owner: Owner, claim: Claim | None) -> str:
    if owner == NO_OWNER:
        return AVAILABLE
    return CLAIMED if claim is not None and claim.state in LEASED_STATES else ALLOCATED
