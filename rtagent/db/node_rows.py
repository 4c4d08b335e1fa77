"""Rows of ``compute_nodes``: one for each node.

The row is the lock of its node. A commit updates it only if its revision and its epoch are those
of the state that the commit is based on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Connection,
    Dialect,
    Select,
    and_,
    bindparam,
    insert,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.types import NullType

from rtagent.db.checked_rows import DIGEST, MISMATCH, CheckedColumns, CheckedRow
from rtagent.db.device_rows import affects_devices
from rtagent.db.findings import Findings
from rtagent.db.node_conflict import no_such_node, raise_conflict
from rtagent.db.node_row import NodeRow
from rtagent.db.registry import BINARY
from rtagent.db.rosters import ROSTERS
from rtagent.db.schema import compute_nodes, services, to_document
from rtagent.db.transaction import Statement
from rtagent.errors import StoreDamaged, StoreUnavailable
from rtagent.model.assigned_resources import ResourceInventory
from rtagent.model.change import Change
from rtagent.model.node import Node, NodeRecord, Ratios, Writer
from rtagent.model.node_state import NodeState
from rtagent.model.topology import Topology
from rtagent.state.compute_node import (
    described,
    numa_topology,
    pci_device_pools,
    quantities,
    ratios,
)

Fields = dict[str, Any]

_decode_topology = msgspec.json.Decoder(Topology).decode
_decode_inventories = msgspec.json.Decoder(tuple[ResourceInventory, ...]).decode


#: The remedy for a node's row whose identity cannot be read.
RESTORE = (
    "restore the last backup; or, if there is none and the database is embedded, start once with"
    " rtagentd --rebuild, which sets the database aside and begins without claims"
)

#: The columns of the identity. They have no digest: an enrollment proves and rewrites them.
_IDENTITY = (
    "uuid",
    "host",
    "hypervisor_hostname",
    "host_ip",
    "epoch",
    "revision",
    "writer_machine_id",
    "writer_boot_id",
    "writer_state_path",
    *("deleted_at", "rebooted_at"),
)
_DISPENSABLE = frozenset(("rebooted_at",))  # the agent starts without it
_RECORD = CheckedColumns(compute_nodes, _IDENTITY, None)
#: Columns that only grow, and the highest value from which they can.
_COUNTS, _MOST = ("epoch", "revision"), 2**62
#: The columns of each digest of the row.
_COUNTERS = CheckedColumns(
    compute_nodes, ("uuid", "revision", "failed_builds", "disk_available_least")
)
_RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
_HOST = CheckedColumns(compute_nodes, ("topology", *_RATIOS), "host_digest")
_INVENTORIES = CheckedColumns(compute_nodes, ("resource_inventories",), "inventories_digest")
#: Agents write the policy; schedulers read it.
POLICY = CheckedColumns(compute_nodes, ("policy",), "policy_digest")
#: The parts of the row that have a digest each, and that agents read.
CHECKED_PARTS = (_COUNTERS, _HOST, _INVENTORIES)
#: A value that cannot be read is None until the next heartbeat replaces it.
_HEARTBEAT = CheckedColumns(services, ("report_count", "last_seen_up"), None)


# -- records: the identity of a node and its writer --------------------------------------------


def record_query() -> Select[Any]:
    """Return a query for the rows that `decode_record` reads: each node with its service."""
    service = and_(services.c.host == compute_nodes.c.host, services.c.binary == BINARY)
    return select(*_RECORD.selected, *_HEARTBEAT.selected).join_from(
        compute_nodes, services, service, isouter=True
    )


def decode_record(row: Sequence[Any]) -> NodeRecord:
    """Return the record of a row of `record_query`.

    :raises StoreDamaged: the identity of the node or of its writer cannot be read.
    """
    checked = _RECORD.read(row)
    values = _readable(checked, f"compute_nodes {row[0]}")
    seen = _HEARTBEAT.read(row[len(_RECORD.selected) :])
    writer = None
    if values["writer_machine_id"] is not None:
        writer = Writer(
            machine_id=values["writer_machine_id"],
            boot_id=values["writer_boot_id"] or "",
            state_path=values["writer_state_path"] or "",
        )
    return NodeRecord(
        node=_node(values),
        epoch=values["epoch"],
        revision=values["revision"],
        writer=writer,
        report_count=seen.values["report_count"],
        last_seen_up=seen.values["last_seen_up"],
        deleted_at=values["deleted_at"],
        rebooted_at=values["rebooted_at"],
    )


def _readable(row: CheckedRow, where: str) -> Mapping[str, Any]:
    """Return the values of a row.

    :raises StoreDamaged: a column cannot be read.
    """
    faults = [fault for fault in row.faults if fault not in _DISPENSABLE]
    faults = faults or [name for name in _COUNTS if row.values[name] > _MOST]
    if faults:
        raise StoreDamaged(f"{where}: {', '.join(faults)} cannot be read: {RESTORE}")
    return row.values


def _node(values: Mapping[str, Any]) -> Node:
    return Node(
        uuid=values["uuid"],
        host=values["host"],
        hypervisor_hostname=values["hypervisor_hostname"],
        host_ip=values["host_ip"],
    )


def read_records(
    connection: Connection, uuid: str, hypervisor_hostname: str, findings: Findings
) -> list[NodeRecord]:
    """Read the records with this uuid or this host name, and report the damage of the former."""
    node = compute_nodes.c
    _refuse_damaged_uuid(connection, uuid, hypervisor_hostname)
    wanted = or_(node.uuid == uuid, node.hypervisor_hostname == hypervisor_hostname)
    rows = connection.execute(record_query().where(wanted)).all()
    for row in rows:
        if row[0] == uuid:
            _set_aside(_RECORD.read(row), uuid, findings)
    return [decode_record(row) for row in rows]


def _set_aside(row: CheckedRow, node_uuid: str, findings: Findings) -> None:
    """Report the damaged columns of an identity without which the agent starts."""
    if faults := sorted(_DISPENSABLE.intersection(row.faults)):
        effect = "it is set aside: guests that are not back since the last reboot are not awaited"
        findings.add("compute_nodes", node_uuid, faults, effect)


def _refuse_damaged_uuid(connection: Connection, uuid: str, hypervisor_hostname: str) -> None:
    """:raises StoreDamaged: the record of this uuid has another uuid now, by damage."""
    its_name = compute_nodes.c.hypervisor_hostname == hypervisor_hostname
    for row in connection.execute(select(*_COUNTERS.selected).where(its_name)):
        found = _COUNTERS.read(row)
        original = {**found.values, "uuid": uuid}
        if found.faults and row[-1] == _COUNTERS.digest(original):
            raise StoreDamaged(
                f"compute_nodes {row[0]}: the uuid of {hypervisor_hostname} is damaged: it was"
                f" {uuid}. {RESTORE}"
            )


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
        "rebooted_at": record.rebooted_at,
    }


# -- the state of a node -----------------------------------------------------------------------


def read_node(connection: Connection, node_uuid: str, findings: Findings) -> NodeRow:
    """Read the row of a node. Damaged facts are left out; the next audit discovers them.

    :raises StoreUnavailable: the database does not have the node.
    :raises StoreDamaged: the identity or the revision of the node cannot be read.
    """
    its_row = compute_nodes.c.uuid == node_uuid
    sums = [type_coerce(compute_nodes.c[name], NullType()) for name in ROSTERS.values()]
    record = connection.execute(select(*_RECORD.selected).where(its_row)).one_or_none()
    if record is None:
        raise no_such_node(node_uuid)
    checked = _RECORD.read(record)
    values = _readable(checked, f"compute_nodes {node_uuid}")
    _set_aside(checked, node_uuid, findings)
    rows = [
        tuple(connection.execute(select(*part.selected).where(its_row)).one())
        for part in CHECKED_PARTS
    ]
    rosters = tuple(connection.execute(select(*sums).where(its_row)).one())
    digests = (*(row[-1] for row in rows), *rosters)
    has_digests = any(digest is not None for digest in digests)
    counters, host, inventories = (
        part.read(row, has_digests=has_digests)
        for part, row in zip(CHECKED_PARTS, rows, strict=True)
    )
    rebooted = {"rebooted_at": values["rebooted_at"]}
    return NodeRow(
        node=_node(values),
        revision=values["revision"],
        epoch=values["epoch"],
        has_digests=has_digests,
        rosters=dict(zip(ROSTERS, rosters, strict=True)),
        facts=rebooted | _facts(findings, node_uuid, counters, host, inventories),
    )


def _facts(
    findings: Findings,
    node_uuid: str,
    counters: CheckedRow,
    host: CheckedRow,
    inventories: CheckedRow,
) -> Fields:
    """Return the fields of `Stored` that come from the node's row."""
    facts: Fields = {
        "failed_builds": counters.values["failed_builds"] or 0,
        "disk_available_least": counters.values["disk_available_least"],
    }
    if counters.faults:
        faults = _named(counters, _COUNTERS)
        findings.add("compute_nodes", node_uuid, faults, "the next commit replaces it")
    again = "it is discovered again"
    try:
        faults = _named(host, _HOST)
        facts |= {} if faults else _host_facts(host.values)
    except msgspec.MsgspecError:
        faults = ("topology",)
    if faults:
        findings.add("compute_nodes", node_uuid, faults, again)
    try:
        faults, text = _named(inventories, _INVENTORIES), inventories.values["resource_inventories"]
        known = () if faults or text is None else _decode_inventories(text)
    except msgspec.MsgspecError:
        faults, known = ("resource_inventories",), ()
    if faults:
        findings.add("compute_nodes", node_uuid, faults, again)
    return facts | {"resource_inventories": known}


def _named(row: CheckedRow, part: CheckedColumns) -> tuple[str, ...]:
    """Return the faults of a part of the row, with the names of the columns of its digest."""
    names = ", ".join(part.names)
    return tuple(f"digest of {names}" if fault == MISMATCH else fault for fault in row.faults)


def _host_facts(values: Mapping[str, Any]) -> Fields:
    cpu, ram, disk = (_decimal(values[name]) for name in _RATIOS)
    topology = values["topology"]
    return {
        "topology": None if topology is None else _decode_topology(topology),
        "ratios": Ratios(cpu=cpu, ram=ram, disk=disk),
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
        appeared: Mapping[str, int],
    ) -> None:
        """Write the columns that the changes affect.

        :param appeared: by table: what the rows that appear and disappear add to its roster.
        :raises WriterFenced: the row has a higher epoch than the state before.
        :raises RevisionConflict: the row has another revision, or a lower epoch.
        """
        fields = _changed_columns(before, after, changes)
        where = {
            "its_uuid": before.node.uuid,
            "its_revision": before.revision,
            "its_epoch": before.epoch,
        }
        added = {f"added_to_{ROSTERS[table]}": number for table, number in appeared.items()}
        statement = self._statement(fields, appeared)
        if statement.run(connection, [fields | where | added]) != 1:
            raise_conflict(connection, before.node.uuid, before.epoch)

    def _statement(self, fields: Mapping[str, Any], tables: Iterable[str]) -> Statement:
        rosters = [ROSTERS[table] for table in tables]
        columns = frozenset((*fields, *rosters))
        if columns not in self._statements:
            clause = update(compute_nodes).where(
                compute_nodes.c.uuid == bindparam("its_uuid"),
                compute_nodes.c.revision == bindparam("its_revision"),
                compute_nodes.c.epoch == bindparam("its_epoch"),
            )
            sums = {
                name: compute_nodes.c[name] + bindparam(f"added_to_{name}", type_=BigInteger)
                for name in rosters
            }
            clause = clause.values(sums) if sums else clause
            self._statements[columns] = Statement(self._dialect, clause, sorted(fields))
        return self._statements[columns]


def _changed_columns(before: NodeState, after: NodeState, changes: Sequence[Change]) -> Fields:
    fields = quantities(after)
    fields["stats"] = to_document(fields["stats"])
    fields["revision"] = after.revision
    fields["failed_builds"] = after.failed_builds
    # The uuid is not written: the database would look for all rows that refer to it.
    counters = {name: fields.get(name, before.node.uuid) for name in _COUNTERS.names}
    fields[DIGEST] = _COUNTERS.digest(counters)
    host_changed = any(change.topology or change.policy for change in changes)
    if host_changed:
        fields |= _HOST.signed({"topology": None} | _encode_host(after))
        fields |= POLICY.signed({"policy": to_document(after.policy)})
    if host_changed or after.usage.numa != before.usage.numa:
        cells = numa_topology(after)
        fields["numa_topology"] = None if cells is None else to_document(cells)
    if host_changed or affects_devices(before, changes):
        fields["pci_device_pools"] = to_document(pci_device_pools(after))
    if any(change.resource_inventories is not None for change in changes):
        text = to_document(after.resource_inventories)
        fields |= _INVENTORIES.signed({"resource_inventories": text})
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
