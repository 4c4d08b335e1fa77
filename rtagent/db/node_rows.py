"""Rows of ``compute_nodes``: one for each node.

The row is the lock of its node. A commit updates it only if its revision and its epoch are those of
the state that the commit is based on.

Documents of a node that have a table of their own: its drain, and the ages of its records.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Connection,
    Dialect,
    Engine,
    bindparam,
    delete,
    insert,
    select,
    type_coerce,
    update,
)
from sqlalchemy.types import NullType

from rtagent.db.checked_rows import DIGEST, LONG_AGO, MISMATCH, CheckedColumns, CheckedRow
from rtagent.db.device_rows import affects_devices
from rtagent.db.keyed_table import Findings, KeyedTable
from rtagent.db.node_records import (
    CHECKED_PARTS,
    COUNTERS,
    HOST,
    INVENTORIES,
    POLICY,
    RATIOS,
    RECORD,
    ROSTERS,
    keys_of,
    no_such_node,
    node_of,
    raise_conflict,
    readable,
    roster,
    set_aside,
)
from rtagent.db.schema import compute_nodes, drains, retention, to_document
from rtagent.db.transaction import Statement, Transactions
from rtagent.model.assignment import ResourceInventory
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.metric import Metric, documents
from rtagent.model.node import Drain, Node, Ratios
from rtagent.model.node_state import NodeState
from rtagent.model.stored import Retention, Stored
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


class NodeRow(Value, frozen=True, kw_only=True):
    """The row of a node.

    :ivar rosters: by table.
    :ivar facts: fields of `Stored`.
    """

    node: Node
    revision: int
    epoch: int
    rosters: Mapping[str, Any]
    facts: Mapping[str, Any]

    def roster_agrees(self, table: str, keys: Iterable[str]) -> bool:
        """Return whether no row of a table is missing, and none is there that should not be."""
        return bool(roster(keys) == self.rosters[table])


def check_rosters(row: NodeRow, stored: Stored, findings: Findings) -> None:
    """Check that all rows of the node have been read."""
    for table, keys in keys_of(stored).items():
        if not row.roster_agrees(table, keys):
            findings.unknown.append(f"rows of {table} are missing, or their keys are damaged")


def read_node(connection: Connection, node_uuid: str, findings: Findings) -> NodeRow:
    """Read the row of a node. Damaged facts are left out; the next audit discovers them.

    :raises StoreUnavailable: the database does not have the node.
    :raises StoreDamaged: the identity or the revision of the node cannot be read.
    """
    its_row = compute_nodes.c.uuid == node_uuid
    sums = [type_coerce(compute_nodes.c[name], NullType()) for name in ROSTERS.values()]
    record = connection.execute(select(*RECORD.selected).where(its_row)).one_or_none()
    if record is None:
        raise no_such_node(node_uuid)
    checked = RECORD.read(record)
    values = readable(checked, f"compute_nodes {node_uuid}")
    set_aside(checked, node_uuid, findings)
    rows = [
        tuple(connection.execute(select(*part.selected).where(its_row)).one())
        for part in CHECKED_PARTS
    ]
    rosters = tuple(connection.execute(select(*sums).where(its_row)).one())
    counters, host, inventories = (
        part.read(row) for part, row in zip(CHECKED_PARTS, rows, strict=True)
    )
    rebooted = {"rebooted_at": values["rebooted_at"]}
    return NodeRow(
        node=node_of(values),
        revision=values["revision"],
        epoch=values["epoch"],
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
        "resource_inventories": (),
    }
    again = "it is discovered again"
    for row, part, decode, effect in (
        (counters, COUNTERS, None, "the next commit replaces it"),
        (host, HOST, _host_facts, again),
        (inventories, INVENTORIES, _inventories, again),
    ):
        faults = _named(row, part)
        try:
            facts |= {} if faults or decode is None else decode(row.values)
        except msgspec.MsgspecError:
            faults = part.names[:1]
        if faults:
            findings.add("compute_nodes", node_uuid, faults, effect)
    return facts


def _named(row: CheckedRow, part: CheckedColumns) -> tuple[str, ...]:
    """Return the faults of a part of the row, with the names of the columns of its digest."""
    names = ", ".join(part.names)
    return tuple(f"digest of {names}" if fault == MISMATCH else fault for fault in row.faults)


def _host_facts(values: Mapping[str, Any]) -> Fields:
    cpu, ram, disk = (_decimal(values[name]) for name in RATIOS)
    topology = values["topology"]
    return {
        "topology": None if topology is None else _decode_topology(topology),
        "ratios": Ratios(cpu=cpu, ram=ram, disk=disk),
    }


def _inventories(values: Mapping[str, Any]) -> Fields:
    text = values["resource_inventories"]
    return {} if text is None else {"resource_inventories": _decode_inventories(text)}


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
    counters = {name: fields.get(name, before.node.uuid) for name in COUNTERS.names}
    fields[DIGEST] = COUNTERS.digest(counters)
    host_changed = any(change.topology or change.policy for change in changes)
    if host_changed:
        fields |= HOST.signed({"topology": None} | _encode_host(after))
        fields |= POLICY.signed({"policy": to_document(after.policy)})
    if host_changed or after.usage.numa != before.usage.numa:
        cells = numa_topology(after)
        fields["numa_topology"] = None if cells is None else to_document(cells)
    if host_changed or affects_devices(before, changes):
        fields["pci_device_pools"] = to_document(pci_device_pools(after))
    if any(change.resource_inventories is not None for change in changes):
        text = to_document(after.resource_inventories)
        fields |= INVENTORIES.signed({"resource_inventories": text})
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


class NodeMetrics:
    """Writes what compute monitors have measured. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)

    def write(self, node_uuid: str, epoch: int, metrics: Sequence[Metric]) -> None:
        """Replace the metrics of a node, unless another writer has raised its epoch.

        :raises StoreUnavailable:
        """
        node = compute_nodes.c
        statement = update(compute_nodes).where(node.uuid == node_uuid, node.epoch == epoch)
        with self._transactions.write_repeatable() as connection:
            connection.execute(statement.values(metrics=to_document(documents(metrics))))


#: What a damaged row says, or a missing one. Nothing is known but that the node drains.
_DAMAGED = Drain(since=LONG_AGO, reason="its record is damaged")
_LOST = Drain(since=LONG_AGO, reason="its record is lost")

_EFFECT = "the node drains until rtagent node undrain"


class _NodeDocument(Value, frozen=True, kw_only=True):
    node_uuid: str
    document: Drain | Retention


_DRAINS = KeyedTable(drains, _NodeDocument, "node_uuid", documents={"document": Drain})
_RETENTION = KeyedTable(retention, _NodeDocument, "node_uuid", documents={"document": Retention})


def _read(
    keyed: KeyedTable[_NodeDocument], connection: Connection, node_uuid: str
) -> tuple[Any, tuple[str, ...]]:
    """Return the document of a node, and the faults of its row. Both are empty without one."""
    query = select(*keyed.checked.selected).where(keyed.table.c.node_uuid == node_uuid)
    raw = connection.execute(query).one_or_none()
    if raw is None:
        return None, ()
    row = keyed.decode(raw)
    return None if row.faults else row.values["document"], row.faults


def _write(
    keyed: KeyedTable[_NodeDocument],
    connection: Connection,
    node_uuid: str,
    document: Drain | Retention | None,
) -> None:
    """Replace the row of a node; None: delete it."""
    connection.execute(delete(keyed.table).where(keyed.table.c.node_uuid == node_uuid))
    if document is not None:
        row = _NodeDocument(node_uuid=node_uuid, document=document)
        connection.execute(insert(keyed.table), keyed.encode(row))


def read_drain(connection: Connection, node_uuid: str, findings: Findings) -> Drain | None:
    """Read the drain of a node; None: it does not drain. With a damaged or a lost row, it does."""
    drain: Drain | None
    drain, faults = _read(_DRAINS, connection, node_uuid)
    if faults:
        findings.add("drains", node_uuid, faults, _EFFECT)
        return _DAMAGED
    if drain is None and _should_drain(connection, node_uuid):
        findings.add("drains", node_uuid, ("the row is missing",), _EFFECT)
        return _LOST
    return drain


def _should_drain(connection: Connection, node_uuid: str) -> bool:
    """Return whether the node's own row says that it drains, or cannot be read."""
    flag = type_coerce(compute_nodes.c.draining, NullType())
    found = connection.scalar(select(flag).where(compute_nodes.c.uuid == node_uuid))
    return found is not None and found != 0


def write_drain(connection: Connection, before: NodeState, after: NodeState) -> None:
    """Replace the drain of a node, if it has changed."""
    if before.drain == after.drain:
        return
    node_uuid = after.node.uuid
    _write(_DRAINS, connection, node_uuid, after.drain)
    its_row = update(compute_nodes).where(compute_nodes.c.uuid == node_uuid)
    connection.execute(its_row.values(draining=after.drain is not None))


def read_retention(connection: Connection, node_uuid: str) -> Retention:
    """Read the ages of a node's records.

    Without a sound row, counting starts again. Then records are kept for longer, never for a
    shorter time.
    """
    kept, _ = _read(_RETENTION, connection, node_uuid)
    return kept or Retention()


def write_retention(connection: Connection, node_uuid: str, kept: Retention) -> None:
    """Replace the ages of a node's records."""
    _write(_RETENTION, connection, node_uuid, kept)
