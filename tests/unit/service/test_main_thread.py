"""The main thread waits for what a start needs."""

import pytest

from rtagent.errors import HypervisorUnavailable, IdentityError, StoreUnavailable, WriterFenced
from rtagent.service.main_thread import (
    DESCRIBE,
    READY,
    RELOAD,
    STOP,
    EventQueue,
    Startup,
    Stopped,
)
from rtagent.service.systemd import Notifier
from tests.support.hosts import ManualClock, uid
from tests.unit.service.conftest import Notes, assert_pauses


class HastyClock(ManualClock):
    """A clock that advances an hour at each reading, so that no wait takes real time."""

    def monotonic(self):
        self.advance(3600)
        return super().monotonic()


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
    return Notes()


@pytest.fixture
def startup(events, notes):
    """Makes a `Startup` on a clock."""
    return lambda clock=None: Startup(events, Notifier(), clock or ManualClock(), notes)


def test_attempt_is_repeated_until_it_succeeds(startup, notes):
    answers = iter([HypervisorUnavailable("no"), HypervisorUnavailable("not yet"), "here"])

    def attempt():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert startup(HastyClock()).wait_for("the hypervisor", attempt) == "here"
    assert [level for level, _ in notes.sentences] == ["warning"] * 2
    assert notes.sentences[0][1].startswith("waiting for the hypervisor: ")


def pauses_after(error, notes):
    """The pauses between six attempts of three seconds, all but the last of which fail."""
    clock = ManualClock()
    events, attempts = PassingEvents(clock), []

    def attempt():
        clock.advance(3.0)
        attempts.append("")
        if len(attempts) < 6:
            raise error()

    Startup(events, Notifier(), clock, notes).wait_for("it", attempt)
    return events.waits


def test_agents_do_not_keep_a_slow_database_busy(notes):
    """If all of them start at the same moment, most attempts could be in vain."""
    assert_pauses(pauses_after(StoreUnavailable, notes), 12.0, 24.0, 48.0, 96.0, 96.0)


def test_hypervisor_of_one_host_is_not_given_more_time_if_it_is_slow(notes):
    assert_pauses(pauses_after(HypervisorUnavailable, notes), 0.25, 0.5, 1.0, 2.0, 4.0)


def test_signal_to_stop_ends_the_wait(startup, events):
    def attempt():
        raise HypervisorUnavailable("no")

    events.put(RELOAD)  # has no effect on a start
    events.put(STOP)

    with pytest.raises(Stopped):
        startup().wait_for("the hypervisor", attempt)


def test_stop_comes_before_the_next_step_of_a_start(startup, events):
    events.put(STOP)

    with pytest.raises(Stopped):
        startup().wait_for("the hypervisor", lambda: pytest.fail("it was attempted"))


def test_reload_during_a_start_comes_after_it(startup, events):
    events.put(RELOAD)

    assert startup().wait_for("the hypervisor", lambda: "here") == "here"
    assert events.get(0) == RELOAD


def test_state_is_logged_while_a_start_waits(startup, events, notes):
    events.put(DESCRIBE)

    startup().wait_for("the hypervisor", lambda: "here")

    assert ("info", "state: waiting for the hypervisor") in notes.sentences
    assert any("state: thread MainThread is in " in line for _, line in notes.sentences)


def test_requests_to_reload_coalesce_and_a_stop_comes_first(events):
    for _ in range(300):
        events.put(RELOAD)
    events.put(READY)
    events.put(STOP)

    assert [events.get(0) for _ in range(4)] == [STOP, READY, RELOAD, None]


def test_error_comes_before_a_reload(events):
    error = IdentityError("wrong")
    events.put(RELOAD)
    events.put(error)

    assert events.get(0) is error


def test_event_that_was_taken_can_be_put_again(events):
    for _ in range(2):
        events.put(RELOAD)
        assert events.get(0) == RELOAD
    assert events.get(0) is None


def test_fatal_error_of_another_thread_ends_the_wait(startup, events):
    def attempt():
        raise HypervisorUnavailable("no")

    events.put(WriterFenced(node_uuid=uid(), ours=1, theirs=2))

    with pytest.raises(WriterFenced):
        startup().wait_for("the hypervisor", attempt)


def test_error_that_a_repetition_does_not_resolve_is_raised(startup):
    def attempt():
        raise IdentityError("wrong")

    with pytest.raises(IdentityError):
        startup().wait_for("the hypervisor", attempt)
