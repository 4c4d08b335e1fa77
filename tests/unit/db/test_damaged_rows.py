"""A damaged row is noticed, whatever column is damaged: nothing is lost, and nothing changes
unnoticed.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.errors import InvariantViolated, RtAgentError
from rtagent.identity.enrollment import Claimant, enroll
from rtagent.model.claim import ACTIVE, INCOMING
from rtagent.model.node_state import NodeState
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
    domain_usage,
    migration,
    odd_claim,
    pinned,
    state_of,
    uuid,
)
from tests.support.stores import commit, enrolled

#: Tables whose rows the agent reads at its start.
TABLES = (
    "claims",
    "compute_nodes",
    "foreign_domains",
    "migrations",
    "pci_devices",
    "units",
    "claim_units",
)
#: The columns that are read, of tables with others that are written for people to read.
READ = {
    "pci_devices": ["node_uuid", "address", "extra_info", "row_digest"],
    "compute_nodes": [
        *("uuid", "host", "hypervisor_hostname", "host_ip", "revision", "epoch", "raised_by"),
        *("writer_machine_id", "writer_boot_id", "writer_state_path", "deleted_at"),
        *("topology", "resource_inventories", "failed_builds", "disk_available_least"),
        *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
        *("row_digest", "host_digest", "inventories_digest"),
        *("claims_roster", "devices_roster", "domains_roster", "migrations_roster"),
    ],
}
#: Damage to these neither stops the start nor the granting.
SOUND_QUANTITIES = {
    ("claims", name)
    for name in ("owner_id", "vcpus", "pcpus", "memory_mb", "disk_mb", "created_at", "updated_at")
}
#: A start of the agent on the same machine.
AGENT = Claimant(node=NODE, writer=WRITER, compute_id="compute_id", service_down_time=60)


def columns() -> Iterator[tuple[str, str]]:
    for table in TABLES:
        for column in READ.get(table) or metadata.tables[table].columns.keys():
            yield table, column


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
    engine.dispose()
    return state


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


def damage(path: Path, table: str, column: str) -> Iterator[Path]:
    """Yield copies of the database in which this column of a row has another value."""
    with sqlite3.connect(path) as connection:
        query = f"SELECT rowid, {column} FROM {table} ORDER BY rowid LIMIT 1"
        rows = connection.execute(query).fetchall()
    for rowid, value in rows:
        for number, other in enumerate(damages(value)):
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


def facts(state: NodeState) -> tuple[Any, ...]:
    """Everything that a store has, but the writer."""
    return (
        dict(state.claims),
        dict(state.domain_usages),
        dict(state.migrations),
        dict(state.devices),
        state.resource_inventories,
        state.topology,
        state.failed_builds,
        state.disk_available_least,
        state.usage,
        dict(state.units),
    )


def judge(before: NodeState, path: Path) -> str:
    """Start on the database. Return the outcome, or fail if damage was not noticed."""
    engine = open_engine(f"sqlite:///{path}", 5)
    try:
        return outcome(before, SqlStore(engine))
    except RtAgentError as error:
        assert error.message
        return "refused"
    finally:
        engine.dispose()


def outcome(before: NodeState, store: SqlStore) -> str:
    state = state_of(store.enroll(NODE.uuid, NODE.hypervisor_hostname, enroll(AGENT, NOW)))
    if facts(state) == facts(before) and not state.unknown:
        return "identical"
    if state.unknown:
        with pytest.raises(InvariantViolated, match="it is not known what is held"):
            state.check()
        return "grants nothing"
    assert noticed(before, state)
    assert set(state.units) >= set(before.units)
    for key, was in before.claims.items():
        now = state.claims[key].usage
        assert now.larger(was.usage) == now
    state.check()
    # The node goes on granting, and a release ends what is quarantined.
    new = claim(9, revision=state.revision + 1)
    state = commit(store, state, created(new))
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


@pytest.mark.parametrize(("table", "column"), list(columns()))
def test_damage_to_a_column_is_noticed(original: tuple[Path, NodeState], table: str, column: str):
    path, before = original
    outcomes = {judge(before, copy) for copy in damage(path, table, column)}
    assert outcomes
    if (table, column) in SOUND_QUANTITIES:
        assert outcomes == {"quarantined"}
