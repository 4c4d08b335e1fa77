"""The rows of devices, written."""

from __future__ import annotations

from msgspec.structs import asdict
from sqlalchemy import Connection, Dialect, bindparam, delete, insert, update

from rtagent.db.devices import NO_DEVICES, DeviceRow, DeviceRows
from rtagent.db.schema import pci_devices
from rtagent.db.statement import Statement

_COLUMNS = DeviceRow.__struct_fields__


class DeviceWriter:
    """Writes them in a transaction that is open."""

    def __init__(self, dialect: Dialect) -> None:
        its_device = (
            pci_devices.c.node_uuid == bindparam("its_node"),
            pci_devices.c.address == bindparam("its_address"),
        )
        self._delete = Statement(dialect, delete(pci_devices).where(*its_device), ())
        self._update = Statement(dialect, update(pci_devices).where(*its_device), _COLUMNS)
        self._insert = Statement(dialect, insert(pci_devices), ("node_uuid", *_COLUMNS))

    def write(self, connection: Connection, node_uuid: str, rows: DeviceRows) -> None:
        """The net change of a commit."""
        if rows is NO_DEVICES:
            return
        gone = [{"its_node": node_uuid, "its_address": address} for address in rows.gone]
        changed = [
            {"its_node": node_uuid, "its_address": row.address, **asdict(row)}
            for row in rows.changed
        ]
        self._delete.run(connection, gone)
        self._update.run(connection, changed)
        self._insert.run(connection, [{"node_uuid": node_uuid, **asdict(row)} for row in rows.new])
