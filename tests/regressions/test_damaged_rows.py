"""A damaged row ended the daemon, or its claim was forgotten and its resources granted again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, delete

from rtagent.db.engine import open_engine
from rtagent.db.schema import claims, metadata
from rtagent.db.store import SqlStore
from rtagent.errors import NodeNotReady, StoreDamaged
from tests.support.hosts import call
from tests.support.trackers import claim, tracker_on


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)
    metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.mark.parametrize(
    ("column", "value"), [("state", "activf"), ("state", "released"), ("pcpus", "x")]
)
def test_claim_of_a_damaged_row_is_held_until_it_is_released(
    engine: Engine, column: str, value: str
):
    made = claim(tracker_on(SqlStore(engine)))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE claims SET {column} = '{value}'")
    tracker = tracker_on(SqlStore(engine))
    held = tracker.snapshot().claims[made.uuid]
    assert held.quarantined
    assert held.usage == made.usage
    assert claim(tracker).uuid in tracker.snapshot().claims
    tracker.release_claim(made.uuid, call("release_claim"))
    tracker = tracker_on(SqlStore(engine))
    assert made.uuid not in tracker.snapshot().claims
    assert not tracker.snapshot().damage


def test_nothing_is_granted_while_a_claim_is_missing(engine: Engine):
    tracker = tracker_on(SqlStore(engine))
    kept, lost = claim(tracker), claim(tracker)
    with engine.begin() as connection:
        connection.execute(delete(claims).where(claims.c.uuid == lost.uuid))
    tracker = tracker_on(SqlStore(engine))
    with pytest.raises(NodeNotReady, match="rows of claims are missing"):
        claim(tracker)
    tracker.release_claim(kept.uuid, call("release_claim"))
    assert not tracker.snapshot().claims


def test_repeated_call_whose_record_is_damaged_is_refused(engine: Engine):
    tracker = tracker_on(SqlStore(engine))
    made = claim(tracker)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE operations SET ended = 'x'")
    with pytest.raises(StoreDamaged, match=f"operations {made.uuid}: ended damaged"):
        SqlStore(engine).operation(tracker.snapshot().node.uuid, made.uuid)
