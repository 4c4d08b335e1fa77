"""Host CPUs have one owner and are not lost when an agent is killed at any point of a commit."""

import os
import signal
from pathlib import Path

import pytest
from sqlalchemy import select

from rtagent.db.engine import open_engine
from rtagent.db.schema import units
from rtagent.db.store import SqlStore
from rtagent.model.claim import PCPU
from rtagent.model.node_state import restore
from tests.crash.cpu_worker import POLICY
from tests.servers.forked import ForkedProgram
from tests.support.hosts import NODE
from tests.support.workload.deployment import PATIENCE

POINTS = ("before", "begun", "node", "claims", "units", "operations", "events", "after")


@pytest.mark.parametrize("point", POINTS)
def test_cpu_is_neither_lost_nor_assigned_twice(
    database_url: str, point: str, tmp_path: Path, long: bool
):
    held: dict[str, frozenset[str]] = {}
    for seed in range(1, 9 if long else 3):
        output = tmp_path / f"output-{seed}"
        arguments = [database_url, f"commit.{point}:{3 + 2 * seed}", str(seed)]
        held = run_until_killed(arguments, output, held)


def run_until_killed(
    arguments: list[str], output: Path, held: dict[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """Run one process until it is killed; return what the database holds then."""
    errors = output.with_suffix(".err")
    worker = ForkedProgram(
        "tests.crash.cpu_worker", arguments, os.environ, output.parent, output, errors
    )
    assert worker.wait(PATIENCE) == -signal.SIGKILL, errors.read_text()
    held, doubt = answered(output.read_text(), held)
    found = loaded(arguments[0])
    assert {uuid: cpus for uuid, cpus in found.items() if uuid != doubt} == {
        uuid: cpus for uuid, cpus in held.items() if uuid != doubt
    }
    return found


def answered(
    output: str, held: dict[str, frozenset[str]]
) -> tuple[dict[str, frozenset[str]], str | None]:
    """Return the CPUs of each claim according to the answers, and the claim whose call got none."""
    held, doubt = dict(held), None
    for line in output.splitlines():
        word, uuid, *cpus = line.split()
        doubt = uuid if word in ("claiming", "releasing") else None
        if word == "claimed":
            held[uuid] = frozenset(cpus)
        elif word == "released":
            del held[uuid]
    return held, doubt


def loaded(url: str) -> dict[str, frozenset[str]]:
    """Load the CPUs of each claim, and check that the rows of units agree."""
    engine = open_engine(url, 15)
    state = restore(SqlStore(engine).load(NODE.uuid), POLICY)
    state.check()
    with engine.connect() as connection:
        rows = connection.execute(select(units.c.kind, units.c.unit, units.c.owner_id)).all()
    engine.dispose()
    assert {(kind, unit): owner for kind, unit, owner in rows} == dict(state.units)
    assert all(claim.suspect is None for claim in state.claims.values())
    return {
        uuid: frozenset(unit for kind, unit in claim.units if kind == PCPU)
        for uuid, claim in state.claims.items()
    }
