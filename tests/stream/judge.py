"""Judge: whether the database says what the callers were told, and agrees with itself."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.kernel import restored
from rtagent.model.policy import Policy
from tests.stream.ledger import Book, Ledger, Told
from tests.stream.record import Record, Row, open_plain, read

MB_IN_GB = 1024
#: What an audit notes of a claim whose domain is not there: it changes nothing that is held.
REMARKS = frozenset({"suspect", "trust"})
AMOUNTS = ("vcpus", "memory_mb", "disk_mb")
#: What of a claim its history keeps.
FACTS = ("state", "suspect", "pcpus", "migration_uuid", *AMOUNTS)


class Judge:
    """:param vcpus: how many the host may promise."""

    def __init__(self, url: str, *, vcpus: int) -> None:
        self._plain, self._engine = open_plain(url), open_engine(url, 30)
        self._vcpus = vcpus

    def judge(self, ledger: Ledger) -> Record:
        """Right at any moment; returns what it saw. Raises `AssertionError`."""
        with ledger:
            record = read(self._plain)
            book = ledger.expected(record.operations)
        same_claims(book, record)
        same_operations(book, record)
        for claim in record.claims.values():
            if claim["uuid"] not in book.doubtful:
                same_story(book.claims[claim["uuid"]], record)
        sums(book, record)
        nothing_twice(record, self._vcpus)
        self._invariants(record)
        return record

    def _invariants(self, record: Record) -> None:
        """What the agent itself would load keeps its own rules."""
        stored = SqlStore(self._engine).load(record.node["uuid"])
        restored(stored, Policy()).check()

    def close(self) -> None:
        self._plain.dispose()
        self._engine.dispose()


def same_claims(book: Book, record: Record) -> None:
    """Every claim that was granted, no other, each as it was told; what was aborted is not held."""
    here = {uuid: shape(row) for uuid, row in record.claims.items() if uuid not in book.doubtful}
    wanted = {
        uuid: (told.owner_id, told.state, told.vcpus, told.memory_mb, told.disk_mb)
        for uuid, told in book.claims.items()
        if uuid not in book.doubtful
    }
    assert here == wanted
    assert not book.ended & record.live.keys()


def same_operations(book: Book, record: Record) -> None:
    """Each operation that had an effect once, each id that was refused for ever."""
    done = {name for name, row in record.operations.items() if not row["ended"]}
    ended = record.operations.keys() - done
    assert done - book.doubtful == book.operations - book.doubtful
    assert ended - book.doubtful == book.ended - book.doubtful


def same_story(told: Told, record: Record) -> None:
    """The history is a chain from its creation to what the claim is now, each step once."""
    story = record.story(told.uuid)
    assert tuple(e["action"] for e in story if e["action"] not in REMARKS) == told.actions
    before = None
    for event in story:
        assert facts(event["before"]) == before
        before = facts(event["after"])
    row = record.claims[told.uuid]
    assert before == {name: row[name] for name in FACTS}


def sums(book: Book, record: Record) -> None:
    """The node's columns are the sum of its live claims and of foreign domains."""
    domains = {
        uuid: (row["vcpus"], row["memory_mb"])
        for uuid, row in record.domains.items()
        if row["active"]
    }
    assert domains == book.domains
    live, node = record.live.values(), record.node
    used = {name: sum(row[name] for row in live) for name in AMOUNTS}
    foreign = [sum(column) for column in zip(*domains.values(), strict=True)] or [0, 0]
    assert node["vcpus_used"] == used["vcpus"] + foreign[0]
    assert node["memory_mb_used"] == used["memory_mb"] + foreign[1] + book.reserved_memory_mb
    assert node["local_gb_used"] == -(-used["disk_mb"] // MB_IN_GB)
    assert node["free_ram_mb"] == node["memory_mb"] - node["memory_mb_used"]
    assert node["running_vms"] == record.stats.get("num_instances", 0) == len(live)
    assert node["failed_builds"] == record.stats["failed_builds"] == book.failed_builds


def nothing_twice(record: Record, vcpus: int) -> None:
    """At no moment had an owner two claims, or the host promised more than it has."""
    held: dict[str, str] = {}
    used = 0
    for event in record.events:
        claim = record.claims.get(event["claim_uuid"])
        if claim is None:  # it has ended, and is forgotten
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


def shape(row: Row) -> tuple[Any, ...]:
    return (row["owner_id"], row["state"], *(row[name] for name in AMOUNTS))


def shown(claims: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Claims as an API shows them, in the form in which `held` tells what they must be."""
    return {claim["uuid"]: shape(claim) for claim in claims}


def held(ledger: Ledger) -> dict[str, tuple[Any, ...]]:
    """The live claims that the callers know of."""
    with ledger:
        return {
            uuid: (told.owner_id, told.state, told.vcpus, told.memory_mb, told.disk_mb)
            for uuid, told in ledger.book.live.items()
        }
