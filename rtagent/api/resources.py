"""Specific resources (virtual GPUs, namespaces of persistent memory) with who has each, as
documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rtagent.api.owners import NOBODY, Owner, holder, owner_of
from rtagent.model.base import Value
from rtagent.model.claim import LEASED_STATES, SPECIFIC, Claim
from rtagent.model.host import HostState
from rtagent.model.specific import SpecificUnit
from rtagent.pci.holds import holders
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.specific import missing
from rtagent.pci.states import ALLOCATED, AVAILABLE, CLAIMED


class Resource(Value, frozen=True, kw_only=True):
    """One unit that is offered, or held.

    :ivar node: hypervisor_hostname.
    :ivar provider: the address of the device that makes it, or "" for the host itself.
    :ivar mdev_uuid: that its mediated device has, or will have; None where it is none.
    :ivar status: ``available``, ``claimed`` or ``allocated``, as of a device.
    :ivar owner_id: and the other two: as of a device. :ivar present: it is there to be had.
    """

    node: str
    provider: str
    resource_class: str
    identifier: str
    mdev_uuid: str | None
    status: str
    owner_id: str | None
    name: str | None
    claim_uuid: str | None
    present: bool


def collection(state: HostState) -> Mapping[str, Any]:
    """Shape: ``{"resources": [Resource]}``: what there is, then what is held and gone."""
    owners = holders(state)
    gone = (
        unit for claim in state.claims.values() for unit in missing(state.specific, claim.resources)
    )
    return {
        "resources": (
            *(_resource(state, unit, owners, present=True) for unit in _there(state)),
            *(
                _resource(state, unit, owners, present=False)
                for unit in sorted(set(gone), key=_name)
            ),
        )
    }


def _there(state: HostState) -> Iterator[SpecificUnit]:
    for each in state.specific:
        for name in each.identifiers:
            yield SpecificUnit(
                provider=each.provider, resource_class=each.resource_class, identifier=name
            )


def _name(unit: SpecificUnit) -> str:
    return unit.identifier


def _resource(
    state: HostState, unit: SpecificUnit, owners: Mapping[str, str], *, present: bool
) -> Resource:
    claim = holder(state, (SPECIFIC, unit.identifier))
    owner = owner_of(state, owners.get(unit.identifier), claim)
    return Resource(
        node=state.node.hypervisor_hostname,
        provider=unit.provider,
        resource_class=unit.resource_class,
        identifier=unit.identifier,
        mdev_uuid=mdev_uuid(state.node.uuid, unit.identifier) if unit.provider else None,
        status=_status(owner, claim),
        owner_id=owner.owner_id,
        name=owner.name,
        claim_uuid=owner.claim_uuid,
        present=present,
    )


def _status(owner: Owner, claim: Claim | None) -> str:
    if owner == NOBODY:
        return AVAILABLE
    return CLAIMED if claim is not None and claim.state in LEASED_STATES else ALLOCATED
