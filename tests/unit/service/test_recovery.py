"""The tracker recovers with its store, its policy is that of the settings, and old records go."""

import pytest
from msgspec.structs import replace

from rtagent.errors import StoreUnavailable
from rtagent.model.policy import Policy
from rtagent.service import housekeeping
from rtagent.service.loop import every
from rtagent.service.recovery import Recovery
from tests.support.hosts import NODE, call
from tests.support.provider_files import CLASS, entry, provider_files
from tests.support.trackers import claim, release
from tests.unit.service.conftest import assert_pauses


@pytest.fixture
def recovery(world):
    world.serve()
    return Recovery(world.context, world.node, lambda: None)


def go_down(world) -> None:
    """The store fails, and a call has noticed it."""
    world.store.fail(StoreUnavailable, times=None, on=("commit", "reload"))
    with pytest.raises(StoreUnavailable):
        claim(world.tracker)


def test_tracker_is_recovered_with_back_off(world, recovery):
    go_down(world)
    assert_pauses([recovery.turn().at_least for _ in range(3)], 0.25, 0.5, 1.0)
    assert world.events.seen == []

    world.store.heal()
    recovery.turn()

    assert world.events.seen == ["StoreReturned"]
    assert claim(world.tracker)


def test_store_that_is_slow_to_fail_is_given_time(world, recovery):
    go_down(world)

    def slowly():
        world.clock.advance(6.0)
        return StoreUnavailable()

    world.store.fail(slowly, times=None, on=("reload",))

    assert_pauses([recovery.turn().at_least for _ in range(2)], 6.0, 10.0)


def test_changed_policy_is_written_once(world, recovery):
    world.configure(reserved_host_memory_mb=512)
    before = world.store.calls["commit"]

    recovery.turn()
    recovery.turn()

    assert world.tracker.snapshot().policy == Policy(reserved_memory_mb=512)
    assert world.store.calls["commit"] == before + 1
    assert world.events.seen == ["PolicyChanged"]


def test_row_of_the_node_is_written_once_by_each_process(world, recovery):
    """Its reserves may be those of an earlier configuration."""
    world.store.fail(StoreUnavailable)
    recovery.turn()  # fails
    recovery.turn()  # recovers
    before = world.store.calls["commit"]

    recovery.turn()
    recovery.turn()

    assert world.store.calls["commit"] == before + 1


def test_policy_that_could_not_be_written_is_tried_again(world, recovery):
    world.configure(reserved_host_memory_mb=512)
    world.store.fail(StoreUnavailable)
    recovery.turn()
    assert world.tracker.snapshot().policy.reserved_memory_mb == 0
    assert world.events.seen == []

    recovery.turn()  # recovers
    recovery.turn()

    assert world.events.seen == ["StoreReturned", "PolicyChanged"]
    assert world.tracker.snapshot().policy.reserved_memory_mb == 512


def test_newer_writer_is_fatal(world, recovery):
    world.open()
    world.configure(reserved_host_memory_mb=512)

    recovery.turn()
    recovery.turn()

    assert [str(error) for error in world.events.errors] == [str(world.tracker.fault)]
    (error,) = world.events.errors
    assert "a newer writer has epoch 2, ours is 1" in str(error)
    assert "make sure that no other agent serves the node before you start this one" in str(error)


def woken(world) -> list[None]:
    """Return the wake-ups of a thread that has had its first turn, as they come."""
    wakeups: list[None] = []
    Recovery(world.context, world.node, lambda: wakeups.append(None)).turn()
    wakeups.clear()
    return wakeups


def test_thread_rests_until_something_happens(world, recovery):
    wakeups = woken(world)
    claim(world.tracker)
    assert not wakeups
    assert recovery.turn().at_most > 1


def be_fenced(world) -> None:
    world.open()
    world.tracker.check_position()


@pytest.mark.parametrize("happens", [go_down, be_fenced])
def test_stale_tracker_and_newer_writer_wake_the_thread(world, recovery, happens):
    wakeups = woken(world)
    happens(world)
    assert wakeups


def test_first_audit_wakes_the_thread(world):
    """Only then can the row of the node be written."""
    wakeups = woken(world)
    world.auditor.run("start")
    assert wakeups


def test_changes_wake_the_thread_if_provider_files_depend_on_the_state(world, recovery, tmp_path):
    wakeups = woken(world)
    files = provider_files(tmp_path / "files", entry({"uuid": NODE.uuid}, {CLASS: {"total": 1}}))
    world.settings.current = replace(world.settings.current, provider_files=files)
    claim(world.tracker)
    assert wakeups


@pytest.fixture
def purges(world):
    now = world.settings.current
    world.settings.current = replace(now, claims=replace(now.claims, operation_retention=100))
    return housekeeping.Housekeeping(world.context, world.store, world.tracker)


def test_operations_are_purged_after_their_retention(world, purges):
    world.serve()
    asked = call()
    release(world.tracker, claim(world.tracker, asked=asked).uuid)

    purges.turn()  # notes what there is
    world.clock.advance(100)
    purges.turn()
    assert world.store.operation(NODE.uuid, asked.operation_id) is not None

    world.clock.advance(1)
    assert purges.turn() == every(housekeeping.INTERVAL)
    assert world.store.operation(NODE.uuid, asked.operation_id) is None


def test_purge_is_postponed_while_the_store_is_down(world, purges):
    world.store.fail(StoreUnavailable, on=("purge",))

    assert purges.turn() == every(housekeeping.RETRY)
