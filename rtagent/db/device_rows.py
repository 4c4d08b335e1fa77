"""Rows of ``pci_devices``: each device with its owner and its status.

The record of a device (``extra_info``) is read back. Owner, status and the other columns are
derived from it and from the claims. They are written for people to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, select

from rtagent.db.checked_rows import CheckedColumns, with_undecodable
from rtagent.db.keyed_table import Findings, KeyedTable, TableRows, net_rows
from rtagent.db.schema import pci_devices, to_document
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.device import DEV_TYPES, STANDARD, Device, PciDevice
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.node_state import NodeState
from rtagent.pci.allocations import device_allocations
from rtagent.pci.device_users import DeviceAllocation, DeviceState, with_related

_decode = msgspec.json.Decoder(PciDevice).decode

#: A device's state, and the id of the request that it is assigned to.
_Shown = tuple[DeviceState, str | None]


class DeviceRow(Value, frozen=True, kw_only=True):
    """A row, without its node."""

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


DEVICES = KeyedTable(
    pci_devices, DeviceRow, "address", subject="device", checked=("address", "extra_info")
)
_DESCRIBED = ("address", "vendor_id", "product_id", "dev_type", "numa_node", "parent_addr")
#: The columns that describe a device whose document cannot be read.
_FACTS = CheckedColumns(pci_devices, _DESCRIBED, None)


def net_devices(
    before: NodeState, after: NodeState, changes: Sequence[Change]
) -> TableRows[DeviceRow]:
    """Return the rows that differ between the two states."""
    if not (before.devices or after.devices) or not affects_devices(before, changes):
        return TableRows()
    had, have = _StateView(before), _StateView(after)
    changed = had.changed_addresses(have, changes)
    related = with_related(before.devices, changed) | with_related(after.devices, changed)
    old, new = had.shown(related), have.shown(related)
    puts = {
        address: _encode(*new[address])
        for address in sorted(new)
        if new[address] != old.get(address)
    }
    return net_rows(old, puts, (*puts, *sorted(old.keys() - new.keys())))


def affects_devices(before: NodeState, changes: Sequence[Change]) -> bool:
    """Return whether the changes may affect a device or its owner."""
    return any(
        change.concerns_devices
        or any(
            usage.occupancy.devices or usage.occupancy.mdevs
            for usage in _domain_usages(before, change)
        )
        for change in changes
    )


def read_devices(
    connection: Connection, node_uuid: str, findings: Findings
) -> tuple[PciDevice, ...]:
    """Read the devices of a node, by address. A device whose row is damaged is quarantined."""
    query = select(*DEVICES.checked.selected, *_FACTS.selected).where(
        pci_devices.c.node_uuid == node_uuid
    )
    rows = connection.execute(query.order_by(pci_devices.c.address))
    found = (_read_row(row, findings) for row in rows)
    return tuple(device for device in found if device is not None)


def _read_row(row: Sequence[Any], findings: Findings) -> PciDevice | None:
    """Return the device of a row; None if the row does not say which device it is."""
    checked = DEVICES.checked.read(row)
    address, faults = checked.values["address"], checked.faults
    device = None
    try:
        device = _decode(checked.values["extra_info"] or "")
    except (msgspec.MsgspecError, UnicodeError) as error:
        faults = with_undecodable(faults, "extra_info", error)
    if device is not None and not faults and device.address == address:
        return device
    if address is None:
        DEVICES.add_nameless(row[0], faults, findings)
        return None
    findings.add("pci_devices", address, faults, "the device is quarantined")
    if device is None or device.address != address:
        device = PciDevice(device=_device(address, row[len(DEVICES.checked.selected) :]))
    return replace(device, quarantine=f"its record is damaged: {', '.join(faults)}")


def _device(address: str, facts: Sequence[Any]) -> Device:
    """Return a device as its columns describe it."""
    values = _FACTS.read(facts).values
    known = values["dev_type"] in DEV_TYPES
    return Device(
        address=address,
        vendor_id=values["vendor_id"] or "",
        product_id=values["product_id"] or "",
        dev_type=values["dev_type"] if known else STANDARD,
        numa_node=values["numa_node"],
        parent_addr=values["parent_addr"],
    )


def _encode(state: DeviceState, request_id: str | None) -> DeviceRow:
    device = state.device.device
    return DeviceRow(
        **{name: getattr(device, name) for name in _DESCRIBED},
        dev_id="pci_" + device.address.replace(":", "_").replace(".", "_"),
        label=device.label,
        status=state.state,
        instance_uuid=state.owner_id,
        request_id=request_id,
        extra_info=to_document(state.device),
    )


def _domain_usages(before: NodeState, change: Change) -> Iterator[DomainUsage]:
    """Yield the usages of a change's domains, now and before: a domain may have released all its
    devices.
    """
    yield from change.domain_usages
    for uuid in (
        *change.domain_usage_removals,
        *(usage.domain_uuid for usage in change.domain_usages),
    ):
        if uuid in before.domain_usages:
            yield before.domain_usages[uuid]


class _StateView:
    """The devices of a state, in the form of rows."""

    def __init__(self, state: NodeState) -> None:
        self.allocations = device_allocations(state)
        self._state = state

    def changed_addresses(self, after: _StateView, changes: Sequence[Change]) -> set[str]:
        """Return the addresses whose record or allocation differs after the changes."""
        recorded = {
            address
            for change in changes
            for address in (*(each.address for each in change.devices), *change.device_removals)
        }
        owners = frozenset[str]().union(*(change.owners for change in changes))
        used = self.allocations.used_by(owners) | after.allocations.used_by(owners)
        return recorded | {
            address for address in used if self._allocated(address) != after._allocated(address)
        }

    def shown(self, addresses: Iterable[str]) -> dict[str, _Shown]:
        """Return the columns of the addresses that have a record."""
        return {
            address: (self.allocations.state(address), self._request(address))
            for address in addresses
            if address in self.allocations.devices
        }

    def _allocated(self, address: str) -> tuple[Sequence[DeviceAllocation], str | None]:
        return self.allocations.allocations_of(address), self._request(address)

    def _request(self, address: str) -> str | None:
        """Return the id of the request that the device is assigned to.

        During a move, an owner may have two claims with the device: the newer one counts.
        """
        for allocation in self.allocations.allocations_of(address):
            for claim in reversed(self._state.claims_of(allocation.owner_id)):
                for device in claim.pci:
                    if device.address == address:
                        return device.request_id
        return None
