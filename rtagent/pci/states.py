"""What state a device is in. It is derived, always: from who holds it, its physical function, its
virtual functions and its IOMMU group. Nothing of it is ever stored, so that nothing of it can be
stale (LP1969496: functions left unavailable by a crash).

A physical function and one of its virtual functions are never in use together, by whomever. Devices
of one IOMMU group are never in use by two owners: they could reach each other's memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.device import PciDevice
from rtagent.model.pci_devices import PciDevices
from rtagent.pci.kinds import Kind, kinds
from rtagent.pci.kinship import gathered, groups, members, parts, wholes

#: Anybody may have it.
AVAILABLE: Final = "available"
#: Held by a claim whose guest has not begun to run.
CLAIMED: Final = "claimed"
#: Held by a claim whose guest runs, or by a domain without a claim.
ALLOCATED: Final = "allocated"
#: It has left the host or the specification, nobody holds it, and it is remembered for a reason.
REMOVED: Final = "removed"
#: Free, and not to be had: a relative is claimed.
UNCLAIMABLE: Final = "unclaimable"
#: Free, and not to be had: a relative is allocated, or somebody keeps it back.
UNAVAILABLE: Final = "unavailable"

STATES: Final = (AVAILABLE, CLAIMED, ALLOCATED, REMOVED, UNCLAIMABLE, UNAVAILABLE)


class Hold(Value, frozen=True, kw_only=True):
    """A device in somebody's hands.

    :ivar owner_id: an instance's uuid, which is its domain's.
    :ivar allocated: its guest runs, or may; else it is being built.
    """

    address: str
    owner_id: str
    allocated: bool


class Obstacle(Value, frozen=True, kw_only=True):
    """Why a free device is not to be had. :ivar state: one of the above, never `AVAILABLE`."""

    state: str
    reason: str


class DeviceState(Value, frozen=True, kw_only=True):
    """A device's line in a listing.

    :ivar owner_id: who holds it, or None. :ivar reason: why it is so, where that is not plain.
    """

    device: PciDevice
    state: str
    owner_id: str | None = None
    reason: str = ""


class Holdings:
    """All devices, and who holds what of them. Built anew from the claims; changes nothing.

    :param holds: of those on one device the first says whose it is.
    """

    def __init__(self, devices: PciDevices, holds: Iterable[Hold]) -> None:
        self.devices = devices
        self._holds: dict[str, list[Hold]] = {}
        self._owners: set[str] = set()
        for hold in holds:
            self._holds.setdefault(hold.address, []).append(hold)
            self._owners.add(hold.owner_id)
        # Only what is held can stand in another's way.
        in_order = sorted(self._holds)
        self._parts = gathered(wholes(devices), in_order)
        self._states: dict[str, DeviceState] = {}
        self._groups = gathered(groups(devices), in_order)

    def holds_of(self, address: str) -> Sequence[Hold]:
        """Two claims of one owner may hold a device, and a domain may use what a claim of another
        holds."""
        return self._holds.get(address, ())

    @property
    def held(self) -> Set[str]:
        """Addresses in anybody's hands, in the record or not."""
        return self._holds.keys()

    def kin(self, addresses: Collection[str]) -> set[str]:
        """Devices of the record whose state may follow from these: themselves, their physical and
        virtual functions, and their IOMMU groups."""
        whole, its_parts = wholes(self.devices), parts(self.devices)
        group, its_members = groups(self.devices), members(self.devices)
        found = set(addresses)
        for address in addresses:
            if address in its_parts:
                found.update(its_parts[address])
            if address in whole:
                found.add(whole[address])
            if address in group:
                found.update(its_members[group[address]])
        return {address for address in found if address in self.devices}

    def held_by(self, owners: Collection[str]) -> frozenset[str]:
        """Addresses in the hands of any of these."""
        return frozenset(
            hold.address
            for holds in self._holds.values()
            for hold in holds
            if hold.owner_id in owners
        )

    def broken(self, pf_address: str) -> bool:
        """Whether a virtual function of it is held, so that it is not to be had whole."""
        return pf_address in self._parts

    def obstacle(self, address: str, owner_id: str | None = None) -> Obstacle | None:
        """Why a device is not to be had by this owner, its holders apart; None: it may be had.

        :param owner_id: None: somebody who holds nothing yet.
        """
        tracked = self.devices[address]
        own = _own_obstacle(tracked)
        if own is None and address in self.near:
            return next(self._neighbours(tracked, owner_id), None)
        return own

    def state(self, address: str) -> DeviceState:
        """Its line in a listing."""
        if address not in self._states:
            self._states[address] = self._state(address)
        return self._states[address]

    def _state(self, address: str) -> DeviceState:
        tracked = self.devices[address]
        holds = self._holds.get(address, ())
        if holds:
            state = ALLOCATED if any(hold.allocated for hold in holds) else CLAIMED
            return DeviceState(
                device=tracked, state=state, owner_id=holds[0].owner_id, reason=gone(tracked) or ""
            )
        obstacle = self.obstacle(address)
        if obstacle is None:
            return DeviceState(device=tracked, state=AVAILABLE)
        return DeviceState(device=tracked, state=obstacle.state, reason=obstacle.reason)

    def available(
        self, owner_id: str | None = None, shared: Collection[str] = ()
    ) -> tuple[Kind, ...]:
        """What an owner may have, by kinds, in their order.

        :param owner_id: as of `obstacle`. :param shared: what he holds himself and may have again.
        """
        if shared or owner_id in self._owners:
            return self._left(owner_id, shared)
        return self._free

    @cached_property
    def _free(self) -> tuple[Kind, ...]:
        """What anybody may have."""
        return self._left(None, ())

    def _left(self, owner_id: str | None, shared: Collection[str]) -> tuple[Kind, ...]:
        left = (
            replace(kind, addresses=self._to_be_had(kind, owner_id, shared))
            for kind in kinds(self.devices)
        )
        return tuple(kind for kind in left if kind.addresses)

    def _to_be_had(
        self, kind: Kind, owner_id: str | None, shared: Collection[str]
    ) -> tuple[str, ...]:
        if _own_obstacle(kind.like) is not None:
            return ()
        held, near = self.held, self.near
        return tuple(
            address
            for address in kind.addresses
            if address not in near
            or ((address not in held or address in shared) and self._may_have(address, owner_id))
        )

    @cached_property
    def near(self) -> Set[str]:
        """Devices that are held, and their kin: only of these it matters who asks, and who holds
        what."""
        return self.kin(self.held)

    def _may_have(self, address: str, owner_id: str | None) -> bool:
        own = all(hold.owner_id == owner_id for hold in self.holds_of(address))
        return own and self.obstacle(address, owner_id) is None

    def _neighbours(self, tracked: PciDevice, owner_id: str | None) -> Iterator[Obstacle]:
        whole = wholes(self.devices).get(tracked.address)
        if whole is not None:
            yield from self._kin([whole], "its physical function")
        yield from self._kin(self._parts.get(tracked.address, ()), "its virtual function")
        yield from self._group(tracked, owner_id)

    def _kin(self, addresses: Iterable[str], what: str) -> Iterator[Obstacle]:
        hold = _first(hold for address in addresses for hold in self._holds.get(address, ()))
        if hold is not None:
            reason = f"{what} {hold.address} is held by {hold.owner_id}"
            yield Obstacle(state=_barred(hold), reason=reason)

    def _group(self, tracked: PciDevice, owner_id: str | None) -> Iterator[Obstacle]:
        group = groups(self.devices).get(tracked.address)
        peers = self._groups.get(group, ()) if group is not None else ()
        holds = [hold for peer in peers if peer != tracked.address for hold in self._holds[peer]]
        hold = _first(hold for hold in holds if hold.owner_id != owner_id)
        if hold is not None:
            reason = f"{hold.address} of its IOMMU group {group} is held by {hold.owner_id}"
            yield Obstacle(state=_barred(hold), reason=reason)


def _first(holds: Iterable[Hold]) -> Hold | None:
    """The one to be named, if there is any: one that bars for longest."""
    of_all = list(holds)
    return next((hold for hold in of_all if hold.allocated), of_all[0] if of_all else None)


def _barred(hold: Hold) -> str:
    """What a free device is for the sake of this hold on another."""
    return UNAVAILABLE if hold.allocated else UNCLAIMABLE


def _own_obstacle(tracked: PciDevice) -> Obstacle | None:
    """What stands in its way whoever holds what."""
    left = gone(tracked)
    if left is not None:
        return Obstacle(state=REMOVED, reason=left)
    if tracked.quarantine is not None:
        return Obstacle(state=UNAVAILABLE, reason=tracked.quarantine)
    return None


def gone(tracked: PciDevice) -> str | None:
    """How a device has left while it is remembered: to be flagged wherever it is held."""
    if not tracked.present:
        return "it has left the host"
    if not tracked.listed:
        return "no device_spec offers it any more"
    return None
