"""Who holds which device, and which specific resource: by the claims, and by what domains were seen
to use without one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rtagent.model.claim import BUILDING, SPECIFIC
from rtagent.model.host import HostState
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.states import Hold, Holdings


def holdings(state: HostState) -> Holdings:
    """All devices of a host, and who holds what of them."""
    return Holdings(state.devices, holds(state))


def holds(state: HostState) -> Iterator[Hold]:
    """Every hold on a device."""
    for claim in state.claims.values():
        for device in claim.pci:
            yield Hold(
                address=device.address,
                owner_id=claim.owner_id,
                allocated=claim.state != BUILDING,
            )
    for holding in state.holdings.values():
        if holding.active:
            for address in sorted(holding.occupancy.devices):
                yield Hold(address=address, owner_id=holding.domain_uuid, allocated=True)


def holders(state: HostState) -> Mapping[str, str]:
    """The owner of each specific resource that is held, by identifier."""
    held = {name: owner for (kind, name), owner in state.units.items() if kind == SPECIFIC}
    used = {
        uuid: holding.domain_uuid
        for holding in state.holdings.values()
        if holding.active
        for uuid in holding.occupancy.mdevs
    }
    if used:
        for identifier in _identifiers(state):
            uuid = mdev_uuid(state.node.uuid, identifier)
            if uuid in used:
                held.setdefault(identifier, used[uuid])
    return held


def _identifiers(state: HostState) -> Iterable[str]:
    """Of mediated devices: those that a provider of their own makes."""
    return (name for each in state.specific if each.provider for name in each.identifiers)
