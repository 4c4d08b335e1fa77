"""Rows of ``pci_devices``: each device, and who holds it, as far as it is to be looked at."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from rtagent.db.text import text
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.device import Device, PciDevice
from rtagent.model.holding import Holding
from rtagent.model.host import HostState
from rtagent.pci.holds import holdings
from rtagent.pci.states import DeviceState, Hold

LOG = logging.getLogger(__name__)

_decode = msgspec.json.Decoder(PciDevice).decode

#: A device's line in a listing, and the request that it answers.
_Line = tuple[DeviceState, str | None]


class DeviceRow(Value, frozen=True, kw_only=True):
    """A row, but for its node."""

    address: str
    vendor_id: str
    product_id: str
    dev_type: str
    dev_id: str
    label: str
    numa_node: int | None
    parent_addr: str | None
    status: str
    instance_uuid: str | None
    request_id: str | None
    extra_info: str


class DeviceRows(Value, frozen=True, kw_only=True):
    """What a commit inserts, updates and deletes (addresses)."""

    new: Sequence[DeviceRow] = ()
    changed: Sequence[DeviceRow] = ()
    gone: Sequence[str] = ()


NO_DEVICES = DeviceRows()


def net_devices(before: HostState, after: HostState, changes: Sequence[Change]) -> DeviceRows:
    """The rows that differ between the two states."""
    if not (before.devices or after.devices) or not moves_devices(before, changes):
        return NO_DEVICES
    had, have = _Shown(before), _Shown(after)
    moved = had.unlike(have, changes)
    near = had.holdings.kin(moved) | have.holdings.kin(moved)
    old, new = had.lines(near), have.lines(near)
    puts = [address for address in sorted(new) if new[address] != old.get(address)]
    return DeviceRows(
        new=tuple(_row(*new[address]) for address in puts if address not in old),
        changed=tuple(_row(*new[address]) for address in puts if address in old),
        gone=tuple(sorted(old.keys() - new.keys())),
    )


def moves_devices(before: HostState, changes: Sequence[Change]) -> bool:
    """Whether a device, or who holds one, may be another after these changes."""
    return any(
        change.devices
        or change.device_removals
        or change.specific is not None
        or any(claim.pci or claim.resources for claim in change.puts + change.ends)
        or any(each.occupancy.devices or each.occupancy.mdevs for each in _holdings(before, change))
        for change in changes
    )


def _holdings(before: HostState, change: Change) -> Iterator[Holding]:
    """As they are now, and as they were: a domain may have let go of all that it had."""
    yield from change.holdings
    for uuid in (*change.unholdings, *(holding.domain_uuid for holding in change.holdings)):
        if uuid in before.holdings:
            yield before.holdings[uuid]


def device(row: Any) -> PciDevice:
    """From a row of the table. One that cannot be read is told by its columns, and kept back."""
    try:
        return _decode(row.extra_info)
    except msgspec.DecodeError as error:
        LOG.error("device %s: its record cannot be read: %s", row.address, error)
        return PciDevice(
            device=Device(
                address=row.address,
                vendor_id=row.vendor_id,
                product_id=row.product_id,
                dev_type=row.dev_type,
                numa_node=row.numa_node,
                parent_addr=row.parent_addr,
            ),
            quarantine=f"its record cannot be read: {error}",
        )


class _Shown:
    """What a state shows of its devices."""

    def __init__(self, state: HostState) -> None:
        self.holdings = holdings(state)
        self._state = state

    def unlike(self, after: _Shown, changes: Sequence[Change]) -> set[str]:
        """Addresses at which the record, or who holds the device for what, is another now."""
        recorded = {
            address
            for change in changes
            for address in (*(each.address for each in change.devices), *change.device_removals)
        }
        owners = frozenset[str]().union(*(change.owners for change in changes))
        held = self.holdings.held_by(owners) | after.holdings.held_by(owners)
        return recorded | {each for each in held if self._held(each) != after._held(each)}

    def lines(self, addresses: Iterable[str]) -> dict[str, _Line]:
        """Of the devices there that are in the record."""
        return {
            address: (self.holdings.state(address), self._request(address))
            for address in addresses
            if address in self.holdings.devices
        }

    def _held(self, address: str) -> tuple[Sequence[Hold], str | None]:
        return self.holdings.holds_of(address), self._request(address)

    def _request(self, address: str) -> str | None:
        """The request that the device answers, if a claim holds it: of the owner's claims the last
        one's, which a move has made."""
        for hold in self.holdings.holds_of(address):
            for claim in reversed(self._state.claims_of(hold.owner_id)):
                for device in claim.pci:
                    if device.address == address:
                        return device.request_id
        return None


def _row(line: DeviceState, request_id: str | None) -> DeviceRow:
    its = line.device.device
    return DeviceRow(
        address=its.address,
        vendor_id=its.vendor_id,
        product_id=its.product_id,
        dev_type=its.dev_type,
        dev_id="pci_" + its.address.replace(":", "_").replace(".", "_"),
        label=its.label,
        numa_node=its.numa_node,
        parent_addr=its.parent_addr,
        status=line.state,
        instance_uuid=line.owner_id,
        request_id=request_id,
        extra_info=text(line.device),
    )
