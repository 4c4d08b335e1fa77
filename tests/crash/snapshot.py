"""Snapshot of a database: the rows of one guest on a node, its resources and its devices."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, text

from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.model.node_state import restore
from rtagent.model.policy import Policy
from tests.crash.move_sequences import MOMENTARY, MoveSequence
from tests.support.workload.checker import REMARKS, facts, open_plain

NODE = """SELECT vcpus_used, memory_mb_used, local_gb_used, free_ram_mb, free_disk_gb, running_vms,
    numa_topology, pci_device_pools, stats FROM compute_nodes"""
DEVICES = "SELECT * FROM pci_devices WHERE node_uuid = :n"
#: The column that has the owner, by table.
OWNED = {
    "claims": "owner_id",
    "units": "owner_id",
    "claim_units": "owner_id",
    "foreign_domains": "domain_uuid",
    "migrations": "instance_uuid",
}


class SnapshotReader:
    """Reader of snapshots. :param host: name of the node's host."""

    def __init__(self, url: str, host: str) -> None:
        self._plain, self._engine, self._host = open_plain(url), open_engine(url, 30), host

    def read(self, sequence: MoveSequence) -> Mapping[str, Any]:
        """Read the current content, and check that the agent loads it with all invariants kept."""
        with self._plain.connect() as connection:
            find = text("SELECT uuid FROM compute_nodes WHERE host = :host")
            node = connection.execute(find, {"host": self._host}).scalar_one()
            found = {
                "node": _rows(connection, f"{NODE} WHERE uuid = :n", node),
                "pci_devices": _rows(connection, DEVICES, node),
                "events": _events(connection, node, sequence.owner),
                "operations": _operations(connection, node, sequence),
            }
            for table, column in OWNED.items():
                query = f"SELECT * FROM {table} WHERE node_uuid = :n AND {column} = :o"
                found[table] = _rows(connection, query, node, sequence.owner)
        restore(SqlStore(self._engine).load(node), Policy()).check()
        return {name: sorted(sequence.named(rows), key=repr) for name, rows in found.items()}

    def close(self) -> None:
        self._plain.dispose()
        self._engine.dispose()


def _rows(connection: Connection, query: str, node: str, owner: str = "") -> list[dict[str, Any]]:
    values = {"n": node, "o": owner} if ":o" in query else {"n": node}
    found = connection.execute(text(query), values).mappings()
    return [{k: v for k, v in row.items() if k not in MOMENTARY} for row in found]


def _events(connection: Connection, node: str, owner: str) -> list[dict[str, Any]]:
    """Return the history of the guest's claims in order, without the `REMARKS` of audits."""
    query = """SELECT claim_events.* FROM claim_events JOIN claims ON claims.uuid = claim_uuid
        WHERE claim_events.node_uuid = :n AND owner_id = :o ORDER BY claim_events.id"""
    events = [e for e in _rows(connection, query, node, owner) if e["action"] not in REMARKS]
    return [
        {
            "at": at,
            "claim": event["claim_uuid"],
            "action": event["action"],
            "before": _state(event["before"]),
            "after": _state(event["after"]),
        }
        for at, event in enumerate(events)
    ]


def _state(document: str | None) -> dict[str, Any]:
    return {k: v for k, v in (facts(document) or {}).items() if k not in MOMENTARY}


def _operations(connection: Connection, node: str, sequence: MoveSequence) -> list[dict[str, Any]]:
    """Return the operations of the sequence's calls; an audit has no operation id."""
    wanted = {step.document.get("operation_id") for step in sequence.steps}
    rows = _rows(connection, "SELECT * FROM operations WHERE node_uuid = :n", node)
    mine = [row for row in rows if row["operation_id"] in wanted]
    return [{k: v for k, v in row.items() if k not in ("at", "digest")} for row in mine]
