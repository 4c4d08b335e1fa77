"""The ages of records, counted in running time."""

from datetime import UTC, datetime, timedelta

from rtagent.model.stored import Retention

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = 86400


def test_records_expire_when_the_agent_has_run_for_longer():
    kept = Retention().after(0, 5, {}).after(DAY / 2, 9, {})
    assert kept.after(DAY / 2, 9, {}).expired_revision(DAY) == 0
    assert kept.after(DAY / 2 + 1, 9, {}).expired_revision(DAY) == 5
    assert kept.after(DAY + 1, 12, {}).expired_revision(DAY) == 9


def test_purged_revisions_are_forgotten():
    kept = Retention().after(0, 5, {}).after(1, 6, {}).after(DAY - 0.5, 6, {})
    assert [each.revision for each in kept.without(kept.expired_revision(DAY)).checkpoints] == [6]


def test_revisions_that_a_restored_database_lacks_are_not_older_than_its_new_ones():
    restored = Retention().after(0, 5, {}).after(DAY, 9, {}).after(0, 7, {})
    assert [each.revision for each in restored.checkpoints] == [5, 7]


def test_ended_moves_expire_unless_they_change():
    kept = Retention().after(0, 5, {"a": NOON, "b": NOON})
    kept = kept.after(DAY, 6, {"a": NOON, "b": NOON + timedelta(seconds=1)}).after(1, 6, {})
    assert kept.expired_moves(DAY) == frozenset()  # they have been removed meanwhile
    kept = Retention().after(0, 5, {"a": NOON, "b": NOON})
    changed = {"a": NOON, "b": NOON - timedelta(days=9)}
    assert kept.after(DAY + 1, 6, changed).expired_moves(DAY) == {"a"}
