"""A damaged row ended the daemon, or its claim was forgotten and its resources granted again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, delete

from rtagent.claims import activate_claim, release_claim
from rtagent.db.damaged_rows import accept, damage
from rtagent.db.engine import open_engine
from rtagent.db.schema import claims, metadata
from rtagent.db.store import SqlStore
from rtagent.errors import NodeNotReady, StoreDamaged, StoreUnavailable
from rtagent.model.stored import Retention
from rtagent.reconcile.steps import AuditStep, ClaimTransition
from rtagent.testing.failpoints import FailingStore
from rtagent.tracker import ResourceTracker
from tests.support.hosts import NODE, call
from tests.support.trackers import claim, release, tracker_on


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)
    metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.mark.parametrize(
    ("column", "value"), [("state", "activf"), ("state", "released"), ("pcpus", "x")]
)
def test_claim_of_a_damaged_row_is_held_until_its_release(engine: Engine, column: str, value: str):
    made = claim(tracker_on(SqlStore(engine)))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE claims SET {column} = '{value}'")
    tracker = tracker_on(SqlStore(engine))
    held = tracker.snapshot().claims[made.uuid]
    assert held.quarantined
    assert held.usage == made.usage
    assert claim(tracker).uuid in tracker.snapshot().claims
    tracker.execute(release_claim, call("release_claim"), made.uuid)
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
    tracker.execute(release_claim, call("release_claim"), kept.uuid)
    assert not tracker.snapshot().claims


def test_repeated_call_whose_record_is_damaged_is_refused(engine: Engine):
    tracker = tracker_on(SqlStore(engine))
    made = claim(tracker)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE operations SET ended = 'x'")
    with pytest.raises(StoreDamaged, match=f"operations {made.uuid}: ended damaged") as refused:
        SqlStore(engine).operation(tracker.snapshot().node.uuid, made.uuid)
    assert not refused.value.retriable


def reload(tracker: ResourceTracker, store: FailingStore) -> None:
    store.fail(StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        claim(tracker)
    assert tracker.recover()


@pytest.mark.parametrize("column", ["state", "vcpus", "revision"])
def test_damaged_claim_at_a_reload_is_no_restored_store(engine: Engine, column: str):
    store = FailingStore(SqlStore(engine))
    tracker = tracker_on(store)
    made = claim(tracker)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE claims SET {column} = 'x'")
    reload(tracker, store)
    assert tracker.snapshot().claims[made.uuid].quarantined
    assert tracker.restored is None
    assert claim(tracker)
    reload(tracker, store)
    assert tracker.restored is None


@pytest.mark.parametrize("verb", ["expire", "appear"])
def test_audit_that_began_before_a_claim_was_quarantined_leaves_it_alone(engine: Engine, verb: str):
    store = FailingStore(SqlStore(engine))
    tracker = tracker_on(store)
    made = claim(tracker)
    with tracker.observing() as base:
        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE claims SET vcpus = 'x'")
        reload(tracker, store)
        planned = ClaimTransition(claim_uuid=made.uuid, verb=verb, reason="seen earlier")
        outcome = tracker.apply([AuditStep(key=made.owner_id, transitions=(planned,))], base)
    assert outcome.skipped == (made.owner_id,)
    held = tracker.snapshot().claims[made.uuid]
    assert held.quarantined
    assert held.state == made.state


def test_claim_that_changed_while_it_was_quarantined_can_be_accepted(engine: Engine):
    made = claim(tracker_on(SqlStore(engine)))
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE claims SET vcpus = 'x'")
    tracker_on(SqlStore(engine)).change(activate_claim, call("activate_claim"), made.uuid)
    assert tracker_on(SqlStore(engine)).snapshot().claims[made.uuid].quarantined
    (listed,) = damage(engine)
    assert made.uuid in listed and "vcpus" in listed
    accept(engine)
    assert not damage(engine)
    assert tracker_on(SqlStore(engine)).snapshot().claims[made.uuid].suspect is None


def test_call_on_a_claim_whose_document_is_lost_does_not_resume_granting(engine: Engine):
    """The call writes the row anew, with a document that has none of the guest's cells."""
    made = claim(tracker_on(SqlStore(engine)))
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE claims SET document = 'x'")
    tracker_on(SqlStore(engine)).change(activate_claim, call("activate_claim"), made.uuid)
    tracker = tracker_on(SqlStore(engine))
    with pytest.raises(NodeNotReady, match=f"the document of claim {made.uuid}"):
        claim(tracker)
    release(tracker, made.uuid)
    assert claim(tracker_on(SqlStore(engine)))


def test_claim_whose_row_seems_to_be_released_is_not_purged(engine: Engine):
    tracker = tracker_on(SqlStore(engine))
    held, ended = claim(tracker), claim(tracker)
    release(tracker, ended.uuid)
    with engine.begin() as connection:
        its_row = claims.c.uuid == held.uuid
        connection.execute(claims.update().where(its_row).values(state="released"))
    tracker = tracker_on(SqlStore(engine))
    revision = tracker.snapshot().revision
    assert SqlStore(engine).purge(NODE.uuid, revision, Retention()) >= 1
    tracker = tracker_on(SqlStore(engine))
    assert set(tracker.snapshot().claims) == {held.uuid}
    assert claim(tracker)
    release(tracker, held.uuid)


@pytest.mark.parametrize("column", ["epoch", "revision"])
def test_position_that_no_agent_can_continue_is_damage(engine: Engine, column: str):
    tracker_on(SqlStore(engine))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE compute_nodes SET {column} = {2**63 - 1}")
    with pytest.raises(StoreDamaged, match=column):
        tracker_on(SqlStore(engine))
