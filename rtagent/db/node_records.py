"""Records of nodes: the identity of each node and of its writer, in ``compute_nodes``.

An enrollment proves and writes it. The other columns of the row are read and written by
`node_rows`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from msgspec.structs import asdict
from sqlalchemy import Connection, Engine, Select, and_, func, insert, or_, select, update

from rtagent.db.checked_rows import CheckedColumns, CheckedRow, number_of
from rtagent.db.keyed_table import Findings
from rtagent.db.registry import BINARY
from rtagent.db.schema import claims, compute_nodes, services
from rtagent.db.transaction import Transactions
from rtagent.errors import (
    NodeNotFound,
    RevisionConflict,
    StoreDamaged,
    StoreUnavailable,
    WriterFenced,
)
from rtagent.model.claim import LIVE_STATES
from rtagent.model.node import Node, NodeRecord, Writer
from rtagent.model.stored import Stored

Fields = dict[str, Any]

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
RECORD = CheckedColumns(compute_nodes, _IDENTITY, None)
#: Columns that only grow, and the highest value from which they can.
_COUNTS, _MOST = ("epoch", "revision"), 2**62
#: The columns of each digest of the row.
COUNTERS = CheckedColumns(
    compute_nodes, ("uuid", "revision", "failed_builds", "disk_available_least")
)
RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
HOST = CheckedColumns(compute_nodes, ("topology", *RATIOS), "host_digest")
INVENTORIES = CheckedColumns(compute_nodes, ("resource_inventories",), "inventories_digest")
#: Agents write the policy; schedulers read it.
POLICY = CheckedColumns(compute_nodes, ("policy",), "policy_digest")
#: The parts of the row that have a digest each, and that agents read.
CHECKED_PARTS = (COUNTERS, HOST, INVENTORIES)
#: A value that cannot be read is None until the next heartbeat replaces it.
_HEARTBEAT = CheckedColumns(services, ("report_count", "last_seen_up"), None)

#: The column of ``compute_nodes`` that has the sum, by table.
ROSTERS: Mapping[str, str] = {
    "claims": "claims_roster",
    "pci_devices": "devices_roster",
    "foreign_domains": "domains_roster",
    "migrations": "migrations_roster",
}

#: Small enough that the sum over millions of rows fits a 64-bit column.
_BYTES = 5


def roster(keys: Iterable[str]) -> int:
    """Return the sum over the rows with these keys."""
    return sum(number_of(key.encode("utf-8", "surrogatepass"), _BYTES) for key in keys)


def keys_of(stored: Stored) -> dict[str, list[str]]:
    """Return the keys of a node's rows, by table."""
    return {
        "claims": [claim.uuid for claim in stored.claims],
        "pci_devices": [device.address for device in stored.devices],
        "foreign_domains": [usage.domain_uuid for usage in stored.domain_usages],
        "migrations": [migration.uuid for migration in stored.migrations],
    }


def no_such_node(node_uuid: str) -> StoreUnavailable:
    """Return the error for a node that the database does not have."""
    return StoreUnavailable(f"the database has no node {node_uuid}")


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


def record_query() -> Select[Any]:
    """Return a query for the rows that `decode_record` reads: each node with its service."""
    service = and_(services.c.host == compute_nodes.c.host, services.c.binary == BINARY)
    return select(*RECORD.selected, *_HEARTBEAT.selected).join_from(
        compute_nodes, services, service, isouter=True
    )


def decode_record(row: Sequence[Any]) -> NodeRecord:
    """Return the record of a row of `record_query`.

    :raises StoreDamaged: the identity of the node or of its writer cannot be read.
    """
    checked = RECORD.read(row)
    values = readable(checked, f"compute_nodes {row[0]}")
    seen = _HEARTBEAT.read(row[len(RECORD.selected) :])
    writer = None
    if values["writer_machine_id"] is not None:
        writer = Writer(
            machine_id=values["writer_machine_id"],
            boot_id=values["writer_boot_id"] or "",
            state_path=values["writer_state_path"] or "",
        )
    return NodeRecord(
        node=node_of(values),
        epoch=values["epoch"],
        revision=values["revision"],
        writer=writer,
        report_count=seen.values["report_count"],
        last_seen_up=seen.values["last_seen_up"],
        deleted_at=values["deleted_at"],
        rebooted_at=values["rebooted_at"],
    )


def readable(row: CheckedRow, where: str) -> Mapping[str, Any]:
    """Return the values of a row.

    :raises StoreDamaged: a column cannot be read.
    """
    faults = [fault for fault in row.faults if fault not in _DISPENSABLE]
    faults = faults or [name for name in _COUNTS if row.values[name] > _MOST]
    if faults:
        raise StoreDamaged(f"{where}: {', '.join(faults)} cannot be read: {RESTORE}")
    return row.values


def node_of(values: Mapping[str, Any]) -> Node:
    return Node(**{name: values[name] for name in Node.__struct_fields__})


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
            set_aside(RECORD.read(row), uuid, findings)
    return [decode_record(row) for row in rows]


def set_aside(row: CheckedRow, node_uuid: str, findings: Findings) -> None:
    """Report the damaged columns of an identity without which the agent starts."""
    if faults := sorted(_DISPENSABLE.intersection(row.faults)):
        effect = "it is set aside: guests that are not back since the last reboot are not awaited"
        findings.add("compute_nodes", node_uuid, faults, effect)


def _refuse_damaged_uuid(connection: Connection, uuid: str, hypervisor_hostname: str) -> None:
    """:raises StoreDamaged: the record of this uuid has another uuid now, by damage."""
    its_name = compute_nodes.c.hypervisor_hostname == hypervisor_hostname
    for row in connection.execute(select(*COUNTERS.selected).where(its_name)):
        found = COUNTERS.read(row)
        original = {**found.values, "uuid": uuid}
        if found.faults and row[-1] == COUNTERS.digest(original):
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
        first = {**fields, "revision": chosen.revision, "failed_builds": 0}
        for part in CHECKED_PARTS:
            first |= part.signed({name: first.get(name) for name in part.names})
        connection.execute(insert(compute_nodes), first | dict.fromkeys(ROSTERS.values(), 0))
        return
    node = compute_nodes.c
    same = update(compute_nodes).where(node.uuid == chosen.node.uuid, node.epoch == read[0].epoch)
    if connection.execute(same.values(fields)).rowcount != 1:
        raise StoreUnavailable("another agent enrolled for this node at the same moment")


def _encode_record(record: NodeRecord) -> Fields:
    """Return the columns that an enrollment writes. Only commits write the revision."""
    writer = record.writer
    return {
        **asdict(record.node),
        "epoch": record.epoch,
        "writer_machine_id": writer and writer.machine_id,
        "writer_boot_id": writer and writer.boot_id,
        "writer_state_path": writer and writer.state_path,
        "raised_by": None,
        "deleted_at": record.deleted_at,
        "rebooted_at": record.rebooted_at,
    }


#: A rule that gets a record and the number of live claims of its node. It raises an `RtAgentError`
#: to prevent the removal.
Rule = Callable[[NodeRecord, int], None]


class SqlNodes:
    """The node records of an engine of `open_engine`. All methods raise `StoreUnavailable`."""

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)

    def records(self) -> tuple[NodeRecord, ...]:
        """Return all records, including removed ones, by hypervisor_hostname."""
        query = record_query().order_by(compute_nodes.c.hypervisor_hostname, compute_nodes.c.uuid)
        with self._transactions.query() as connection:
            return tuple(map(decode_record, connection.execute(query)))

    def remove(self, uuid: str, rule: Rule, now: datetime, *, dry_run: bool = False) -> NodeRecord:
        """Mark a node's record as removed. Its rows stay. Return the record as it was before.

        The epoch is raised, so that a writer that starts at this moment is fenced.

        :param dry_run: only evaluate the rule.

        :raises NodeNotFound: there is no such record, or it was removed already.
        :raises RtAgentError: from the rule.
        """
        node = compute_nodes.c
        with self._transactions.write_repeatable(serial=True) as connection:
            row = connection.execute(
                record_query().where(node.uuid == uuid, node.deleted_at.is_(None))
            ).one_or_none()
            if row is None:
                raise NodeNotFound(node=uuid, served="none of that uuid")
            record = decode_record(row)
            live = claims.c.node_uuid == uuid, claims.c.state.in_(sorted(LIVE_STATES))
            rule(record, connection.scalars(select(func.count()).where(*live)).one())
            if dry_run:
                return record
            removal = (
                update(compute_nodes)
                .where(node.uuid == uuid, node.epoch == record.epoch)
                .values(deleted_at=now, epoch=node.epoch + 1)
            )
            if connection.execute(removal).rowcount != 1:
                raise StoreUnavailable(f"an agent took node {uuid} over at the same moment")
        return record
