"""A picture: what a database says of one guest on one node, and of the node's resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, text

from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.kernel import restored
from rtagent.model.policy import Policy
from tests.crash.move_story import MOMENTARY, Story
from tests.stream.judge import REMARKS, facts
from tests.stream.record import open_plain

NODE = """SELECT vcpus_used, memory_mb_used, local_gb_used, free_ram_mb, free_disk_gb, running_vms,
    numa_topology, pci_device_pools, stats FROM compute_nodes"""
#: Where the rows of an owner are, by table.
OWNED = {
    "claims": "owner_id",
    "units": "owner_id",
    "claim_units": "owner_id",
    "pci_devices": "instance_uuid",
    "foreign_domains": "domain_uuid",
    "migrations": "instance_uuid",
}


class Painter:
    """:param host: the node's."""

    def __init__(self, url: str, host: str) -> None:
        self._plain, self._engine, self._host = open_plain(url), open_engine(url, 30), host

    def paint(self, story: Story) -> Mapping[str, Any]:
        """As it is now. The agent itself would load it, and it keeps its own rules."""
        with self._plain.connect() as connection:
            find = text("SELECT uuid FROM compute_nodes WHERE host = :host")
            node = connection.execute(find, {"host": self._host}).scalar_one()
            found = {
                "node": _rows(connection, f"{NODE} WHERE uuid = :n", node),
                "events": _events(connection, node, story.owner),
                "operations": _operations(connection, node, story),
            }
            for table, column in OWNED.items():
                query = f"SELECT * FROM {table} WHERE node_uuid = :n AND {column} = :o"
                found[table] = _rows(connection, query, node, story.owner)
        restored(SqlStore(self._engine).load(node), Policy()).check()
        return {name: sorted(story.named(rows), key=repr) for name, rows in found.items()}

    def close(self) -> None:
        self._plain.dispose()
        self._engine.dispose()


def _rows(connection: Connection, query: str, node: str, owner: str = "") -> list[dict[str, Any]]:
    values = {"n": node, "o": owner} if ":o" in query else {"n": node}
    found = connection.execute(text(query), values).mappings()
    return [{k: v for k, v in row.items() if k not in MOMENTARY} for row in found]


def _events(connection: Connection, node: str, owner: str) -> list[dict[str, Any]]:
    """The history of the guest's claims, but for what was merely remarked, in order."""
    query = """SELECT claim_events.* FROM claim_events JOIN claims ON claims.uuid = claim_uuid
        WHERE claim_events.node_uuid = :n AND owner_id = :o ORDER BY claim_events.id"""
    told = [e for e in _rows(connection, query, node, owner) if e["action"] not in REMARKS]
    return [
        {
            "at": at,
            "claim": event["claim_uuid"],
            "action": event["action"],
            "before": _state(event["before"]),
            "after": _state(event["after"]),
        }
        for at, event in enumerate(told)
    ]


def _state(document: str | None) -> dict[str, Any]:
    return {k: v for k, v in (facts(document) or {}).items() if k not in MOMENTARY}


def _operations(connection: Connection, node: str, story: Story) -> list[dict[str, Any]]:
    """Those that the story asked for; that of an audit has no id."""
    asked = {step.document.get("operation_id") for step in story.steps}
    rows = _rows(connection, "SELECT * FROM operations WHERE node_uuid = :n", node)
    mine = [row for row in rows if row["operation_id"] in asked]
    return [{k: v for k, v in row.items() if k not in ("at", "digest")} for row in mine]
