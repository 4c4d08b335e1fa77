"""PCI devices with who has them, and why others are not to be had, as documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from rtagent.api.owners import owner_of
from rtagent.errors import InvalidRequest, PciDeviceNotFound
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.device import DEV_TYPES
from rtagent.model.host import HostState
from rtagent.pci.holds import holdings
from rtagent.pci.states import STATES, Holdings
from rtagent.pci.tags import said


class Device(Value, frozen=True, kw_only=True):
    """One device that is offered, or held, or kept back.

    :ivar node: hypervisor_hostname. :ivar numa_node: None: the device does not know.
    :ivar tags: what a device specification says of it, where that is other than usual.
    :ivar status: one of `STATES`. :ivar reason: why it is so, where that is not plain, or "".
    :ivar owner_id: the instance, or the foreign domain, that has it. :ivar name: of that one.
    :ivar claim_uuid: None where no claim says so.
    :ivar others: uuids of whoever has hold of it, too: of another part of what it makes, or as a
        domain that uses what a claim of another holds.
    :ivar quarantine: why nobody gets it until it is cleared, or None.
    """

    node: str
    address: str
    vendor_id: str
    product_id: str
    dev_type: str
    numa_node: int | None
    parent_addr: str | None
    iommu_group: int | None
    net_name: str | None
    resource_class: str
    tags: Mapping[str, Any]
    status: str
    owner_id: str | None = None
    name: str | None = None
    claim_uuid: str | None = None
    others: tuple[str, ...] = ()
    quarantine: str | None = None
    reason: str = ""


#: What a collection can be narrowed by: the field, and the values that it can have, if those are
#: few.
_Filter = tuple[Callable[[Device], str | None], tuple[str, ...]]
_FILTERS: Mapping[str, _Filter] = {
    "address": (lambda device: device.address, ()),
    "dev_type": (lambda device: device.dev_type, DEV_TYPES),
    "instance": (lambda device: device.owner_id, ()),
    "node": (lambda device: device.node, ()),
    "status": (lambda device: device.status, STATES),
}
FILTERS = frozenset(_FILTERS)


def collection(state: HostState, filters: Mapping[str, str]) -> Mapping[str, Any]:
    """Shape: ``{"pci": [Device]}``, by address.

    :param filters: ``instance`` is the uuid of an owner; all of those given must match.
    :raises InvalidRequest: a value that no device can have.
    """
    _check(filters)
    held = holdings(state)
    devices = (_device(state, held, address) for address in sorted(state.devices))
    chosen = (
        device
        for device in devices
        if all(_FILTERS[name][0](device) == wanted for name, wanted in filters.items())
    )
    return {"pci": tuple(chosen)}


def member(state: HostState, address: str) -> Mapping[str, Any]:
    """Shape: ``{"pci": Device}``.

    :raises PciDeviceNotFound: nobody offers it, and nobody holds it.
    """
    if address not in state.devices:
        raise PciDeviceNotFound(address=address)
    return {"pci": _device(state, holdings(state), address)}


def counts(state: HostState) -> dict[str, int]:
    """How many devices have each status."""
    held = holdings(state)
    numbers = Counter(held.state(address).state for address in state.devices)
    return {status: numbers[status] for status in STATES}


def _check(filters: Mapping[str, str]) -> None:
    errors = [
        {"path": name, "message": f"not one of {', '.join(words)}"}
        for name, value in sorted(filters.items())
        for words in [_FILTERS[name][1]]
        if words and value not in words
    ]
    if errors:
        raise InvalidRequest(method="GET /pci", errors=errors)


def _device(state: HostState, held: Holdings, address: str) -> Device:
    line = held.state(address)
    device = line.device.device
    owner = owner_of(state, line.owner_id, _claim(state, line.owner_id, address))
    holders = {hold.owner_id for hold in held.holds_of(address)}
    return Device(
        node=state.node.hypervisor_hostname,
        address=address,
        vendor_id=device.vendor_id,
        product_id=device.product_id,
        dev_type=device.dev_type,
        numa_node=device.numa_node,
        parent_addr=device.parent_addr,
        iommu_group=device.iommu_group,
        net_name=device.net_name,
        resource_class=line.device.resource_class,
        tags=said(line.device.tags),
        status=line.state,
        owner_id=owner.owner_id,
        name=owner.name,
        claim_uuid=owner.claim_uuid,
        others=tuple(sorted(holders - {owner.owner_id})),
        quarantine=line.device.quarantine,
        reason=line.reason,
    )


def _claim(state: HostState, owner_id: str | None, address: str) -> Claim | None:
    """By which the owner has it, or a part of what it makes."""
    for claim in state.claims_of(owner_id) if owner_id is not None else ():
        parts = (unit.provider for unit in claim.resources)
        if address in (*(device.address for device in claim.pci), *parts):
            return claim
    return None
