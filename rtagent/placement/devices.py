"""PCI devices, as Placement is told of them (``[pci] report_in_placement``). Pure.

What a claim holds is not reserved, since an allocation speaks of it. What nobody has claimed and
nobody can have is.
"""

from __future__ import annotations

from collections.abc import Iterator

from rtagent.model.claim import PCI
from rtagent.model.device import PciDevice
from rtagent.model.host import HostState
from rtagent.pci.holds import holdings
from rtagent.pci.reporting import Counted, counted, traits
from rtagent.pci.states import Holdings
from rtagent.placement.child import child, whole
from rtagent.placement.provider import Provider


def device_providers(state: HostState) -> Iterator[Provider]:
    """One for each device, or for each physical function that has its virtual ones counted."""
    if not state.policy.pci.report_in_placement:
        return
    holds = holdings(state)
    groups, _ = counted(filter(lambda each: _told(state, each), state.devices.values()))
    for group in groups:
        yield _provider(state, holds, group)


def _told(state: HostState, tracked: PciDevice) -> bool:
    """A device that is offered no more stays while a claim holds it: so does its allocation."""
    return tracked.listed or (PCI, tracked.address) in state.units


def _provider(state: HostState, holds: Holdings, group: Counted) -> Provider:
    first = group.devices[0]
    reserved = sum(_kept_back(state, holds, each.address) for each in group.devices)
    return child(
        state.node,
        group.address.upper(),
        {first.resource_class: whole(len(group.devices), reserved)},
        traits(first.tags),
    )


def _kept_back(state: HostState, holds: Holdings, address: str) -> bool:
    """No claim holds it, and nobody can have it."""
    if (PCI, address) in state.units:
        return False
    return bool(holds.holds_of(address)) or holds.obstacle(address) is not None
