"""The main thread waits for what a start needs."""

import pytest

from rtagent.errors import HypervisorUnavailable, IdentityError, StoreUnavailable, WriterFenced
from rtagent.service.main_thread import DESCRIBE, READY, RELOAD, STOP, EventQueue, Startup, Stopped
from rtagent.service.systemd import Notifier
from tests.support.hosts import ManualClock, uid
from tests.support.trackers import Reports
from tests.unit.service.conftest import assert_pauses


class PassingEvents(EventQueue):
    """A queue whose waits pass on a clock, and take no real time. :ivar waits: in seconds."""

    def __init__(self, clock):
        super().__init__()
        self.clock, self.waits = clock, []

    def get(self, timeout):
        self.clock.advance(timeout)
        if timeout:
            self.waits.append(timeout)
        return super().get(0)


@pytest.fixture
def events():
    return EventQueue()


@pytest.fixture
def notes():
    return Reports()


@pytest.fixture
def startup(events, notes):
    return Startup(events, Notifier(), ManualClock(), notes)


@pytest.mark.parametrize(
    ("error", "longest"),
    [
        # If all agents start at the same moment, most attempts could be in vain.
        (StoreUnavailable, [12.0, 24.0, 48.0, 96.0, 96.0]),
        (HypervisorUnavailable, [0.25, 0.5, 1.0, 2.0, 4.0]),  # of this host alone
    ],
)
def test_attempt_is_repeated_and_does_not_keep_a_slow_database_busy(notes, error, longest):
    clock = ManualClock()
    events, failures = PassingEvents(clock), [error()] * 5

    def attempt():
        clock.advance(3.0)
        if failures:
            raise failures.pop()
        return "here"

    assert Startup(events, Notifier(), clock, notes).wait_for("it", attempt) == "here"
    assert_pauses(events.waits, *longest)
    assert [level for level, _ in notes.logged] == ["warning"] * 5
    assert notes.logged[0][1].startswith("waiting for it: ")


FENCED = WriterFenced(node_uuid=uid(), ours=1, theirs=2)


@pytest.mark.parametrize(
    ("event", "error", "raised"),
    [
        (STOP, HypervisorUnavailable("no"), Stopped),
        (FENCED, HypervisorUnavailable("no"), WriterFenced),  # fatal, of another thread
        (RELOAD, IdentityError("wrong"), IdentityError),  # a repetition does not resolve it
    ],
)
def test_a_stop_and_a_fatal_error_end_the_wait(startup, events, event, error, raised):
    def attempt():
        events.put(RELOAD)  # has no effect on a start
        events.put(event)
        raise error

    with pytest.raises(raised):
        startup.wait_for("the hypervisor", attempt)


def test_stop_comes_before_the_next_step_of_a_start(startup, events):
    events.put(STOP)

    with pytest.raises(Stopped):
        startup.wait_for("the hypervisor", lambda: pytest.fail("it was attempted"))


def test_reload_during_a_start_comes_after_it(startup, events):
    events.put(RELOAD)

    assert startup.wait_for("the hypervisor", lambda: "here") == "here"
    assert events.get(0) == RELOAD


def test_state_is_logged_while_a_start_waits(startup, events, notes):
    events.put(DESCRIBE)

    startup.wait_for("the hypervisor", lambda: "here")

    assert ("info", "state: waiting for the hypervisor") in notes.logged
    assert any("state: thread MainThread is in " in line for _, line in notes.logged)


def test_the_most_urgent_event_comes_first_and_equal_ones_once(events):
    for _ in range(2):  # what was taken can be put again
        for event in (*[RELOAD] * 300, READY, FENCED, STOP):
            events.put(event)
        assert [events.get(0) for _ in range(5)] == [STOP, FENCED, READY, RELOAD, None]
