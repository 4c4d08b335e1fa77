"""Rows of ``compute_nodes``: one for each node.

The row is the lock of its node. A commit updates it only if its revision and its epoch are those
of the state that the commit is based on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NoReturn

import msgspec
from sqlalchemy import Connection, Dialect, Select, and_, bindparam, insert, or_, select, update

from rtagent.compute_node import described, numa_topology, pci_device_pools, quantities, ratios
from rtagent.db.device_rows import affects_devices
from rtagent.db.registry import BINARY
from rtagent.db.schema import compute_nodes, services, to_document
from rtagent.db.transaction import Statement
from rtagent.errors import RevisionConflict, StoreUnavailable, WriterFenced
from rtagent.model.assigned_resources import ResourceInventory
from rtagent.model.change import Change
from rtagent.model.node import Node, NodeRecord, Ratios, Writer
from rtagent.model.node_state import NodeState
from rtagent.model.topology import Topology

Fields = dict[str, Any]

_decode_topology = msgspec.json.Decoder(Topology).decode
_decode_inventories = msgspec.json.Decoder(tuple[ResourceInventory, ...]).decode


# -- records: the identity of a node and its writer --------------------------------------------


def record_query() -> Select[Any]:
    """Return a query for the rows that `decode_record` reads: each node with its service."""
    service = and_(services.c.host == compute_nodes.c.host, services.c.binary == BINARY)
    return select(compute_nodes, services.c.last_seen_up).join_from(
        compute_nodes, services, service, isouter=True
    )


def decode_record(row: Any) -> NodeRecord:
    """Return the record of a row of `record_query`."""
    writer = None
    if row.writer_machine_id is not None:
        writer = Writer(
            machine_id=row.writer_machine_id,
            boot_id=row.writer_boot_id,
            state_path=row.writer_state_path,
        )
    return NodeRecord(
        node=decode_node(row),
        epoch=row.epoch,
        revision=row.revision,
        writer=writer,
        last_seen_up=row.last_seen_up,
        deleted_at=row.deleted_at,
    )


def read_records(connection: Connection, uuid: str, hypervisor_hostname: str) -> list[NodeRecord]:
    """Read the records with this uuid or this host name."""
    node = compute_nodes.c
    found = or_(node.uuid == uuid, node.hypervisor_hostname == hypervisor_hostname)
    return [decode_record(row) for row in connection.execute(record_query().where(found))]


def write_record(connection: Connection, chosen: NodeRecord, records: Sequence[NodeRecord]) -> None:
    """Insert a record, or update the one that was read if its writer is still the same.

    :param records: the records that were read.
    :raises StoreUnavailable: another agent has taken the node over meanwhile.
    """
    fields = _encode_record(chosen)
    read = [record for record in records if record.node.uuid == chosen.node.uuid]
    if not read:
        row = {**fields, "revision": chosen.revision, "failed_builds": 0}
        connection.execute(insert(compute_nodes), row)
        return
    node = compute_nodes.c
    same = update(compute_nodes).where(node.uuid == chosen.node.uuid, node.epoch == read[0].epoch)
    if connection.execute(same.values(fields)).rowcount != 1:
        raise StoreUnavailable("another agent enrolled for this node at the same moment")


def _encode_record(record: NodeRecord) -> Fields:
    """Return the columns that an enrollment writes. Only commits write the revision."""
    writer = record.writer
    return {
        "uuid": record.node.uuid,
        "host": record.node.host,
        "hypervisor_hostname": record.node.hypervisor_hostname,
        "host_ip": record.node.host_ip,
        "epoch": record.epoch,
        "writer_machine_id": writer and writer.machine_id,
        "writer_boot_id": writer and writer.boot_id,
        "writer_state_path": writer and writer.state_path,
        "raised_by": None,
        "deleted_at": record.deleted_at,
    }


# -- the state of a node -----------------------------------------------------------------------


def read_node(connection: Connection, node_uuid: str) -> Any:
    """Read the row of a node.

    :raises StoreUnavailable: the database does not have the node.
    """
    query = select(compute_nodes).where(compute_nodes.c.uuid == node_uuid)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise no_such_node(node_uuid)
    return row


def no_such_node(node_uuid: str) -> StoreUnavailable:
    """Return the error for a node that the database does not have."""
    return StoreUnavailable(f"the database has no node {node_uuid}")


def decode_node(row: Any) -> Node:
    """Return the identity of a node."""
    return Node(
        uuid=row.uuid,
        host=row.host,
        hypervisor_hostname=row.hypervisor_hostname,
        host_ip=row.host_ip,
    )


def decode_facts(row: Any) -> Fields:
    """Return the host's facts, as fields of `Stored`."""
    topology, inventories = row.topology, row.resource_inventories
    return {
        "topology": None if topology is None else _decode_topology(topology),
        "resource_inventories": () if inventories is None else _decode_inventories(inventories),
        "ratios": Ratios(
            cpu=_decimal(row.cpu_allocation_ratio),
            ram=_decimal(row.ram_allocation_ratio),
            disk=_decimal(row.disk_allocation_ratio),
        ),
        "failed_builds": row.failed_builds,
        "disk_available_least": row.disk_available_least,
    }


class NodeWriter:
    """Update the row of a node in an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._statements: dict[frozenset[str], Statement] = {}

    def update(
        self,
        connection: Connection,
        before: NodeState,
        after: NodeState,
        changes: Sequence[Change],
    ) -> None:
        """Write the columns that the changes affect.

        :raises WriterFenced: the row has a higher epoch than the state before.
        :raises RevisionConflict: the row has another revision, or a lower epoch.
        """
        fields = _changed_columns(before, after, changes)
        where = {
            "its_uuid": before.node.uuid,
            "its_revision": before.revision,
            "its_epoch": before.epoch,
        }
        if self._statement(fields).run(connection, [fields | where]) != 1:
            raise_conflict(connection, before.node.uuid, before.epoch)

    def _statement(self, fields: Mapping[str, Any]) -> Statement:
        columns = frozenset(fields)
        if columns not in self._statements:
            clause = update(compute_nodes).where(
                compute_nodes.c.uuid == bindparam("its_uuid"),
                compute_nodes.c.revision == bindparam("its_revision"),
                compute_nodes.c.epoch == bindparam("its_epoch"),
            )
            self._statements[columns] = Statement(self._dialect, clause, sorted(columns))
        return self._statements[columns]


def raise_conflict(connection: Connection, node_uuid: str, epoch: int) -> NoReturn:
    """Raise the reason why an update did not match the row of a node."""
    node = compute_nodes.c
    query = select(node.epoch, node.revision).where(node.uuid == node_uuid)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise no_such_node(node_uuid)
    if row.epoch > epoch:
        raise WriterFenced(node_uuid=node_uuid, ours=epoch, theirs=row.epoch)
    raise RevisionConflict(
        f"node {node_uuid} is at epoch {row.epoch} and revision {row.revision}, not at ours"
    )


def _changed_columns(before: NodeState, after: NodeState, changes: Sequence[Change]) -> Fields:
    fields = quantities(after)
    fields["stats"] = to_document(fields["stats"])
    fields["revision"] = after.revision
    fields["failed_builds"] = after.failed_builds
    host_changed = any(change.topology or change.policy for change in changes)
    if host_changed:
        fields |= _encode_host(after)
    if host_changed or after.usage.numa != before.usage.numa:
        cells = numa_topology(after)
        fields["numa_topology"] = None if cells is None else to_document(cells)
    if host_changed or affects_devices(before, changes):
        fields["pci_device_pools"] = to_document(pci_device_pools(after))
    if any(change.resource_inventories is not None for change in changes):
        fields["resource_inventories"] = to_document(after.resource_inventories)
    return fields


def _encode_host(state: NodeState) -> Fields:
    """Return the columns that depend on the topology and the policy alone."""
    fields = ratios(state.policy)
    if state.topology is not None:
        fields |= described(state.topology, state.policy)
        fields["topology"] = state.topology
    return {
        name: value if isinstance(value, str | int | float | None) else to_document(value)
        for name, value in fields.items()
    }


def _decimal(number: float | None) -> Decimal | None:
    # Convert through the shortest text, so that 0.1 stays 0.1.
    return None if number is None else Decimal(str(number))
