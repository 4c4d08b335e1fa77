"""Host CPUs over crashes: never two owners, never lost, at every boundary, on every database."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from rtagent.db.engine import open_engine
from rtagent.db.schema import units
from rtagent.db.store import SqlStore
from rtagent.kernel import restored
from rtagent.model.claim import PCPU
from tests.builders import NODE
from tests.crash.pinner import POLICY

ROOT = Path(__file__).resolve().parents[2]
POINTS = ("before", "begun", "node", "claims", "units", "operations", "events", "after")


@pytest.mark.parametrize("point", POINTS)
def test_a_cpu_is_neither_lost_nor_given_out_twice(database_url: str, point: str, long: bool):
    held: dict[str, frozenset[str]] = {}
    for life in range(1, 9 if long else 3):
        held = one_life(database_url, f"commit.{point}:{3 + 2 * life}", life, held)


def one_life(
    url: str, failpoint: str, seed: int, held: dict[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """One process until it is killed; what is held then, as the database has it."""
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.crash.pinner", url, failpoint, str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    held, doubt = told(child.stdout, held)
    found = kept(url)
    assert {uuid: cpus for uuid, cpus in found.items() if uuid != doubt} == {
        uuid: cpus for uuid, cpus in held.items() if uuid != doubt
    }
    return found


def told(
    output: str, held: dict[str, frozenset[str]]
) -> tuple[dict[str, frozenset[str]], str | None]:
    """What the answers say that is held, and the claim whose change was never answered."""
    held, doubt = dict(held), None
    for line in output.splitlines():
        word, uuid, *cpus = line.split()
        doubt = uuid if word in ("asked", "giving") else None
        if word == "took":
            held[uuid] = frozenset(cpus)
        elif word == "gave":
            del held[uuid]
    return held, doubt


def kept(url: str) -> dict[str, frozenset[str]]:
    """The CPUs of each claim, as loaded; the rows of units say the same."""
    engine = open_engine(url, 5)
    state = restored(SqlStore(engine).load(NODE.uuid), POLICY)
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
