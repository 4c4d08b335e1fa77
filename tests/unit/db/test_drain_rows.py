"""Rows of drains: they outlast the process, and a damaged or a lost one still drains."""

from sqlalchemy import Engine, delete, text, update

from rtagent.db.schema import drains
from rtagent.db.store import SqlStore
from rtagent.lifecycle.draining import drain, undrain
from tests.support.hosts import NOON, call
from tests.support.trackers import stored_state, tracker_on


def test_drain_is_stored_replaced_and_removed(engine: Engine):
    store = SqlStore(engine)
    tracker = tracker_on(store)
    assert stored_state(store).drain is None
    for reason, deadline in (("new disks", NOON), ("new firmware \N{SNOWMAN}", None)):
        tracker.execute(drain, call("drain_node"), reason, deadline)
        found = stored_state(store).drain
        assert found is not None
        assert (found.reason, found.deadline) == (reason, deadline)
        assert found == tracker.snapshot().drain
    tracker.execute(undrain, call("undrain_node"))
    assert stored_state(store).drain is None


def test_damaged_drain_is_reported_and_lasts_until_it_is_ended(engine: Engine):
    store = SqlStore(engine)
    tracker = tracker_on(store)
    tracker.execute(drain, call("drain_node"), "new disks", None)
    with engine.begin() as connection:
        connection.execute(update(drains).values(document='{"since": "x'))
    restarted = tracker_on(store)
    state = restarted.snapshot()
    assert state.drain is not None and state.drain.reason == "its record is damaged"
    (damage,) = state.damage
    assert damage.startswith("drains ") and "rtagent node undrain" in damage
    restarted.execute(undrain, call("undrain_node"))
    assert stored_state(store).drain is None
    assert not stored_state(store).damage


def test_lost_drain_is_reported_and_lasts_until_it_is_ended(engine: Engine):
    store = SqlStore(engine)
    tracker = tracker_on(store)
    tracker.execute(drain, call("drain_node"), "new disks", None)
    with engine.begin() as connection:
        connection.execute(delete(drains))
    restarted = tracker_on(store)
    state = restarted.snapshot()
    assert state.drain is not None and state.drain.reason == "its record is lost"
    (damage,) = state.damage
    assert damage.startswith("drains ") and "rtagent node undrain" in damage
    restarted.execute(undrain, call("undrain_node"))
    assert stored_state(store).drain is None
    assert not stored_state(store).damage


def test_recorded_drain_counts_though_no_flag_was_written(engine: Engine):
    """As in a database of the release before."""
    store = SqlStore(engine)
    tracker_on(store).execute(drain, call("drain_node"), "new disks", None)
    with engine.begin() as connection:
        connection.execute(text("UPDATE compute_nodes SET draining = NULL"))
    state = stored_state(store)
    assert state.drain is not None and state.drain.reason == "new disks"
    assert not state.damage
