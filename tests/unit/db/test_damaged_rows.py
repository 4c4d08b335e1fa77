"""Damage to any column of a row, and a flipped bit of the file, are noticed: nothing is lost, and
nothing changes unnoticed.
"""

import random
import shutil
import sqlite3
from collections import deque
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, event, text

from rtagent.claims import drain, undrain
from rtagent.db.damaged_rows import accept
from rtagent.db.engine import open_engine
from rtagent.db.restore import check_files
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.errors import InvariantViolated, RtAgentError, StoreUnavailable
from rtagent.identity.enrollment import Claimant, HeartbeatWatch, enroll
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, INCOMING
from rtagent.model.domain_usage import EVERY_KIND
from rtagent.model.node_state import NodeState
from rtagent.model.policy import ManageAllocations, PlacementPolicy
from rtagent.model.usage import NUMA_NOTHING
from tests.support.hosts import call
from tests.support.stored_values import (
    DEVICE,
    INVENTORIES,
    NODE,
    NOW,
    OCCUPANCY,
    POLICY,
    TOPOLOGY,
    WRITER,
    claim,
    created,
    device,
    devices,
    domain_usage,
    migration,
    odd_claim,
    pinned,
    released,
    state_of,
    uuid,
)
from tests.support.stores import assert_loads, commit, enrolled
from tests.support.trackers import stored_state, tracker_on

#: Tables whose rows the agent reads at its start.
TABLES = (
    "claims",
    "compute_nodes",
    "foreign_domains",
    "migrations",
    "pci_devices",
    "units",
    "claim_units",
    "allocation_outbox",
)
#: The columns that are read, of tables with others that are written for people to read.
READ = {
    # A row that is lost is found at the start, when all allocations are compared.
    "allocation_outbox": ["consumer_uuid", "revision", "request_id", "at", "row_digest"],
    "pci_devices": ["node_uuid", "address", "extra_info", "row_digest"],
    "compute_nodes": [
        *("uuid", "host", "hypervisor_hostname", "host_ip", "revision", "epoch", "raised_by"),
        *("writer_machine_id", "writer_boot_id", "writer_state_path", "deleted_at"),
        *("rebooted_at", "draining"),
        *("topology", "resource_inventories", "failed_builds", "disk_available_least"),
        *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
        *("row_digest", "host_digest", "inventories_digest"),
        *("claims_roster", "devices_roster", "domains_roster", "migrations_roster"),
    ],
}
#: Damage to these columns of a claim neither stops the start nor the granting.
HELD = ("owner_id", "state", "vcpus", "pcpus", "memory_mb", "disk_mb", "created_at", "updated_at")

COLUMNS = [
    (table, column)
    for table in TABLES
    for column in READ.get(table) or metadata.tables[table].columns.keys()
]
#: The damages of a column.
MOST = 8
#: A start of the agent on the same machine.
AGENT = Claimant(node=NODE, writer=WRITER, compute_id="compute_id", service_down_time=60)


def fill(path: Path) -> NodeState:
    """Write rows of every table. Return the state."""
    engine = open_engine(f"sqlite:///{path}", 5)
    metadata.create_all(engine)
    store = SqlStore(engine)
    change = replace(
        created(
            pinned(1, 4, 5, state=ACTIVE, expires_at=None),
            claim(2),
            odd_claim(3),
            claim(4, state=INCOMING, kind="resize", migration_uuid=uuid(4004)),
        ),
        migrations=(migration(4, claim_uuid=uuid(1004)),),
        domain_usages=(domain_usage(1, occupancy=OCCUPANCY),),
        devices=(DEVICE, device(1, quarantine="it overheats")),
        resource_inventories=INVENTORIES,
        topology=TOPOLOGY,
        policy=POLICY,
        failed_builds=3,
        disk_available_least=7,
    )
    state = commit(store, enrolled(store), change)
    placement = PlacementPolicy(manage_allocations=ManageAllocations.YES)
    state = replace(state, policy=replace(POLICY, placement=placement))
    state = commit(store, state, Change(cause="placement", at=NOW, unwritten=(uuid(5),)))
    engine.dispose()
    return state


#: Everything that a store has, but the writer.
facts = attrgetter(
    *("claims", "domain_usages", "migrations", "devices", "resource_inventories", "topology"),
    *("failed_builds", "disk_available_least", "outbox", "drain", "usage", "units"),
)


def judge(before: NodeState, path: Path) -> str:
    """Start on the database. Return the outcome, or fail if damage was not noticed."""
    engine = open_engine(f"sqlite:///{path}", 5)
    try:
        check_files(engine)
        return outcome(before, SqlStore(engine))
    except RtAgentError as error:
        assert error.message
        return "refused"
    finally:
        engine.dispose()


def outcome(before: NodeState, store: SqlStore) -> str:
    rule = enroll(AGENT, HeartbeatWatch(), 0.0)
    state = state_of(store.enroll(NODE.uuid, NODE.hypervisor_hostname, rule))
    if facts(state) == facts(before) and not state.unknown:
        return "identical"
    if state.unknown:
        with pytest.raises(InvariantViolated, match="it is not known what is held"):
            state.check()
        return "grants nothing"
    assert noticed(before, state)
    assert set(state.units) >= set(before.units)
    for key, was in before.claims.items():
        now = replace(state.claims[key].usage, numa=NUMA_NOTHING)
        assert now.larger(replace(was.usage, numa=NUMA_NOTHING)) == now
    state.check()
    # The node goes on granting, and a release ends what is quarantined.
    state = commit(store, state, created(claim(9, revision=state.revision + 1)))
    again = state_of(store.load(NODE.uuid))
    assert set(again.claims) == set(state.claims)
    assert dict(again.units) == dict(state.units)
    again.check()
    return "quarantined"


def noticed(before: NodeState, state: NodeState) -> bool:
    """Whether everything that differs was reported."""
    for key, was in before.claims.items():
        now = state.claims.get(key)
        if now != was and not (now is not None and now.suspect):
            return False
    return bool(state.damage) or any(c.suspect for c in state.claims.values())


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NodeState]:
    path = tmp_path_factory.mktemp("original") / "db.sqlite"
    return path, fill(path)


def damages(value: Any) -> list[Any]:
    """Values that may come in place of this one: of another type, and of the same type."""
    if value is None:
        return ["x", 1, b"\xff"]
    if isinstance(value, int | float):
        return ["x", value + 1, value - 1, -1, 2**62, b"\xff\x00"]
    swapped = [word for word in ("released", "active", "incoming", "activf") if word != value]
    words = swapped[:3] if value in ("released", "active", "building", "incoming") else []
    middle = len(value) // 2
    flipped = value[:middle] + chr(ord(value[middle]) ^ 1) + value[middle + 1 :] if value else "x"
    return ["", 7, value[:middle], flipped, value.encode()[:middle] + b"\xff", *words]


def damage(path: Path, table: str, column: str, first: int = 0) -> Iterator[Path]:
    """Yield copies of the database in which this column of a row has another value.

    :param first: the number of the damage to begin with.
    """
    with sqlite3.connect(path) as connection:
        query = f"SELECT rowid, {column} FROM {table} ORDER BY rowid LIMIT 1"
        rows = connection.execute(query).fetchall()
    for rowid, value in rows:
        others = deque(damages(value))
        others.rotate(-first)
        for number, other in enumerate(others):
            copy = path.with_name(f"{table}-{column}-{rowid}-{number}.sqlite")
            shutil.copy(path, copy)
            with sqlite3.connect(copy) as connection:
                try:
                    its = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                    connection.execute(its, (other, rowid))
                except sqlite3.IntegrityError:
                    continue
            yield copy
            copy.unlink()


@pytest.mark.parametrize("place", range(len(COLUMNS)), ids=map("-".join, COLUMNS))
def test_damage_to_a_column_is_noticed(original: tuple[Path, NodeState], place: int, every: int):
    (path, before), (table, column) = original, COLUMNS[place]
    copies = damage(path, table, column, first=place)
    outcomes = {judge(before, copy) for copy in islice(copies, MOST // every + 1)}
    assert outcomes
    if table == "claims" and column in HELD:
        assert outcomes == {"quarantined"}


def test_damaged_time_of_a_reboot_is_reported_and_set_aside(original: tuple[Path, NodeState]):
    path, _ = original
    for copy in damage(path, "compute_nodes", "rebooted_at"):
        engine = open_engine(f"sqlite:///{copy}", 5)
        store, rule = SqlStore(engine), enroll(AGENT, HeartbeatWatch(), 0.0)
        damaged = store.load(NODE.uuid)
        started = store.enroll(NODE.uuid, NODE.hypervisor_hostname, rule)
        repaired = store.load(NODE.uuid)
        engine.dispose()
        for stored in (damaged, started):
            (sentence,) = stored.damage
            assert sentence.startswith("compute_nodes ")
            assert "(rebooted_at): it is set aside" in sentence
        assert (started.rebooted_at, repaired.damage) == (None, ())


def test_rows_are_not_accepted_while_the_agent_writes_others(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(claim(1)))
    with engine.begin() as connection:
        connection.execute(text("UPDATE claims SET vcpus = vcpus + 1"))
    writes = []

    def write_between(connection: Connection) -> None:
        if connection.get_execution_options().get("writes") and not writes:
            writes.append(True)
            commit(store, state, released(claim(1)))

    event.listen(engine, "engine_connect", write_between)
    with pytest.raises(StoreUnavailable, match="has written meanwhile"):
        accept(engine)
    stored = store.load(NODE.uuid)
    assert writes
    assert (stored.claims, stored.damage, stored.unknown) == ((), (), ())


def test_flipped_bit_is_noticed(
    original: tuple[Path, NodeState], tmp_path: Path, fast: bool, long: bool
):
    path, before = original
    content, choose = path.read_bytes(), random.Random(13)
    # Most of the file is free space, where a bit that is flipped is of no account.
    used = [at for at, byte in enumerate(content) if byte]
    outcomes = set[str]()
    for number in range(1500 if long else 20 if fast else 50):
        at, bit = choose.choice(used), choose.randrange(8)
        copy = tmp_path / f"{number}-{at}-{bit}.sqlite"
        copy.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
        outcomes.add(judge(before, copy))
        copy.unlink()
    assert outcomes >= {"identical", "refused"}


@pytest.mark.parametrize(
    ("occupancy", "pcpus"), [("?", frozenset()), ('{"pcpus": [5]}', frozenset({5}))]
)
def test_what_the_damaged_row_of_a_domain_does_not_say_is_unknown(
    engine: Engine, occupancy: str, pcpus: frozenset[int]
):
    store = SqlStore(engine)
    came = Change(cause="audit", at=NOW, domain_usages=(domain_usage(1, occupancy=OCCUPANCY),))
    commit(store, enrolled(store), came)
    with engine.begin() as connection:
        connection.execute(text("UPDATE foreign_domains SET occupancy = :o"), {"o": occupancy})
    (usage,) = store.load(NODE.uuid).domain_usages
    assert (usage.occupancy.pcpus, usage.occupancy.unknown) == (pcpus, EVERY_KIND)


def test_unreadable_device_is_quarantined(engine: Engine):
    store = SqlStore(engine)
    commit(store, enrolled(store), devices(device(8), device(9)))
    with engine.begin() as connection:
        damaged = "UPDATE pci_devices SET extra_info = '{' WHERE address = '0000:08:00.0'"
        connection.execute(text(damaged))
    state = enrolled(store)
    assert any("pci_devices 0000:08:00.0: damaged (extra_info" in each for each in state.damage)
    assert "its record is damaged: extra_info" in (state.devices["0000:08:00.0"].quarantine or "")
    assert state.devices["0000:09:00.0"] == device(9)
    assert_loads(store, commit(store, state, devices(device(8))))


@pytest.mark.parametrize(
    ("statement", "damage"),
    [('UPDATE drains SET document = \'{"since": "x\'', "damaged"), ("DELETE FROM drains", "lost")],
)
def test_damaged_drain_is_reported_and_lasts_until_it_is_ended(
    engine: Engine, statement: str, damage: str
):
    store = SqlStore(engine)
    tracker_on(store).execute(drain, call("drain_node"), "new disks", None)
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    restarted = tracker_on(store)
    state = restarted.snapshot()
    assert state.drain is not None and state.drain.reason == f"its record is {damage}"
    (sentence,) = state.damage
    assert sentence.startswith("drains ") and "rtagent node undrain" in sentence
    restarted.execute(undrain, call("undrain_node"))
    ended = stored_state(store)
    assert (ended.drain, ended.damage) == (None, ())
