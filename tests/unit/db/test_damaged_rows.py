"""A damaged row is noticed, whatever column is damaged: nothing is lost, and nothing changes
unnoticed.
"""

import shutil
import sqlite3
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text

from rtagent.db.damaged_rows import accept
from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.errors import StoreUnavailable
from rtagent.identity.enrollment import HeartbeatWatch, enroll
from rtagent.model.node_state import NodeState
from tests.support.stored_values import NODE, claim, created, released
from tests.support.stores import commit, enrolled
from tests.unit.db.damaged_stores import AGENT, fill, judge

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
#: Damage to these neither stops the start nor the granting.
HELD = {
    ("claims", name)
    for name in (
        "owner_id",
        "state",
        "vcpus",
        "pcpus",
        "memory_mb",
        "disk_mb",
        "created_at",
        "updated_at",
    )
}


COLUMNS = [
    (table, column)
    for table in TABLES
    for column in READ.get(table) or metadata.tables[table].columns.keys()
]
#: The damages of a column.
MOST = 8


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
    if (table, column) in HELD:
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
