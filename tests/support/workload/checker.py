"""Checker: the database agrees with the answers to the callers, and with itself."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, text

from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.model.base import Value
from rtagent.model.node_state import restore
from rtagent.model.policy import Policy
from tests.support.workload.ledger import ExpectedState, KnownClaim, Ledger

Row = Mapping[str, Any]


class Record(Value, frozen=True, kw_only=True):
    """Every row of one node at one moment."""

    node: Row
    claims: Mapping[str, Row]
    operations: Mapping[str, Row]
    events: Sequence[Row]
    domains: Mapping[str, Row]

    @property
    def live(self) -> dict[str, Row]:
        return {uuid: row for uuid, row in self.claims.items() if row["state"] != "released"}

    @property
    def stats(self) -> Mapping[str, int]:
        found: Mapping[str, int] = json.loads(self.node["stats"])
        return found

    def history(self, claim_uuid: str) -> list[Row]:
        """Return a claim's events, the oldest first."""
        return [event for event in self.events if event["claim_uuid"] == claim_uuid]


def open_plain(url: str) -> Engine:
    """Make an engine whose transactions read one moment, without code of the package."""
    if url.startswith("sqlite"):
        # A transaction of SQLite reads one moment once it has begun.
        return create_engine(url, connect_args={"timeout": 30})
    return create_engine(url, isolation_level="REPEATABLE READ", pool_pre_ping=True)


def read(engine: Engine) -> Record:
    """Read the rows of the only node."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.execute(text("BEGIN"))
        (node,) = _rows(connection, "compute_nodes")
        return Record(
            node=node,
            claims=_by("uuid", _rows(connection, "claims")),
            operations=_by("operation_id", _rows(connection, "operations")),
            events=_rows(connection, "claim_events ORDER BY id"),
            domains=_by("domain_uuid", _rows(connection, "foreign_domains")),
        )


def _rows(connection: Connection, where: str) -> list[Row]:
    return list(connection.execute(text(f"SELECT * FROM {where}")).mappings())


def _by(key: str, rows: Sequence[Row]) -> dict[str, Row]:
    found = {str(row[key]): row for row in rows}
    assert len(found) == len(rows), f"a {key} occurs twice"
    return found


MB_IN_GB = 1024
#: Actions of an audit about a claim whose domain is missing. They change nothing that is held.
REMARKS = frozenset({"suspect", "trust"})
AMOUNTS = ("vcpus", "memory_mb", "disk_mb")
#: The fields of a claim that its history records.
FACTS = ("state", "suspect", "pcpus", "migration_uuid", *AMOUNTS)


class Checker:
    """:param vcpus: how many vCPUs the host may grant."""

    def __init__(self, url: str, *, vcpus: int) -> None:
        self._plain, self._engine = open_plain(url), open_engine(url, 30)
        self._vcpus = vcpus

    def check(self, ledger: Ledger) -> Record:
        """Compare the database with the ledger; return the rows. Valid at any moment.

        :raises AssertionError: they differ.
        """
        with ledger:
            record = read(self._plain)
            expected = ledger.expected(record.operations)
        same_claims(expected, record)
        same_operations(expected, record)
        for claim in record.claims.values():
            if claim["uuid"] not in expected.doubtful:
                same_history(expected.claims[claim["uuid"]], record)
        sums(expected, record)
        nothing_granted_twice(record, self._vcpus)
        self._invariants(record)
        return record

    def _invariants(self, record: Record) -> None:
        """The state that the agent would load keeps every invariant."""
        stored = SqlStore(self._engine).load(record.node["uuid"])
        restore(stored, Policy()).check()

    def close(self) -> None:
        self._plain.dispose()
        self._engine.dispose()


def same_claims(expected: ExpectedState, record: Record) -> None:
    """The claims are those that were granted, as answered; none that was aborted is held."""
    here = {
        uuid: fields(row) for uuid, row in record.claims.items() if uuid not in expected.doubtful
    }
    wanted = {
        uuid: (claim.owner_id, claim.state, claim.vcpus, claim.memory_mb, claim.disk_mb)
        for uuid, claim in expected.claims.items()
        if uuid not in expected.doubtful
    }
    assert here == wanted
    assert not expected.ended & record.live.keys()


def same_operations(expected: ExpectedState, record: Record) -> None:
    """The operations are those that had an effect, and those whose ids were recorded as ended."""
    done = {name for name, row in record.operations.items() if not row["ended"]}
    ended = record.operations.keys() - done
    assert done - expected.doubtful == expected.operations - expected.doubtful
    assert ended - expected.doubtful == expected.ended - expected.doubtful


def same_history(claim: KnownClaim, record: Record) -> None:
    """The history is a chain from the creation to the claim's current state, each step once."""
    events = record.history(claim.uuid)
    assert tuple(e["action"] for e in events if e["action"] not in REMARKS) == claim.actions
    before = None
    for event in events:
        assert facts(event["before"]) == before
        before = facts(event["after"])
    row = record.claims[claim.uuid]
    assert before == {name: row[name] for name in FACTS}


def sums(expected: ExpectedState, record: Record) -> None:
    """The node's columns are the sums of its live claims and its domains without a claim."""
    domains = {
        uuid: (row["vcpus"], row["memory_mb"])
        for uuid, row in record.domains.items()
        if row["active"]
    }
    assert domains == expected.domains
    live, node = record.live.values(), record.node
    used = {name: sum(row[name] for row in live) for name in AMOUNTS}
    foreign = [sum(column) for column in zip(*domains.values(), strict=True)] or [0, 0]
    assert node["vcpus_used"] == used["vcpus"] + foreign[0]
    assert node["memory_mb_used"] == used["memory_mb"] + foreign[1] + expected.reserved_memory_mb
    assert node["local_gb_used"] == -(-used["disk_mb"] // MB_IN_GB)
    assert node["free_ram_mb"] == node["memory_mb"] - node["memory_mb_used"]
    assert node["running_vms"] == record.stats.get("num_instances", 0) == len(live)
    assert node["failed_builds"] == record.stats["failed_builds"] == expected.failed_builds


def nothing_granted_twice(record: Record, vcpus: int) -> None:
    """No owner ever had two claims, and the host never granted more vCPUs than it has."""
    held: dict[str, str] = {}
    used = 0
    for event in record.events:
        claim = record.claims.get(event["claim_uuid"])
        if claim is None:  # ended and purged
            continue
        used += held_by(facts(event["after"])) - held_by(facts(event["before"]))
        assert used <= vcpus
        if event["action"] == "create":
            assert claim["owner_id"] not in held, f"{claim['owner_id']} was granted two claims"
            held[claim["owner_id"]] = claim["uuid"]
        if facts(event["after"])["state"] == "released":
            assert held.pop(claim["owner_id"]) == claim["uuid"]
    assert set(held.values()) == set(record.live)


def held_by(claim: Mapping[str, Any]) -> int:
    return 0 if not claim or claim["state"] == "released" else int(claim["vcpus"])


def facts(document: str | None) -> Any:
    return None if document is None else json.loads(document)


def fields(row: Row) -> tuple[Any, ...]:
    return (row["owner_id"], row["state"], *(row[name] for name in AMOUNTS))


def shown(claims: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Return claims of an API's answer in the form of `held`."""
    return {claim["uuid"]: fields(claim) for claim in claims}


def held(ledger: Ledger) -> dict[str, tuple[Any, ...]]:
    """Return the live claims that the callers know of."""
    with ledger:
        return {
            uuid: (claim.owner_id, claim.state, claim.vcpus, claim.memory_mb, claim.disk_mb)
            for uuid, claim in ledger.state.live.items()
        }
