"""Threads that take turns."""

import threading

import pytest

from rtagent.service.backoff import Backoff
from rtagent.service.loop import Loop, Rest, every
from rtagent.service.watchdog import Watchdog

#: Seconds; nothing here takes that long.
PATIENCE = 30.0


class Turns:
    """Turns that a test lets happen one at a time."""

    def __init__(self) -> None:
        self.number = 0
        self.began, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.rest = Rest()
        self.error: Exception | None = None

    def __call__(self) -> Rest:
        self.number += 1
        self.began.release()
        assert self.may_end.acquire(timeout=PATIENCE)
        if self.error is not None:
            raise self.error
        return self.rest


@pytest.fixture
def turns():
    return Turns()


@pytest.fixture
def loop(world, turns):
    made = Loop("work", turns, world.clock, world.notes)
    yield made
    made.ask_to_stop()
    turns.may_end.release(9)
    assert made.stop(PATIENCE)


def test_a_loop_takes_its_first_turn_at_once_and_then_when_it_is_woken(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    turns.may_end.release()
    loop.wake()
    assert turns.began.acquire(timeout=PATIENCE)
    assert turns.number == 2


def test_a_loop_rests_when_it_has_done_what_it_was_woken_for(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    loop.wake()
    turns.may_end.release(3)

    assert turns.began.acquire(timeout=PATIENCE)
    assert not turns.began.acquire(timeout=0.1)


def test_being_woken_during_a_turn_is_not_forgotten(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    loop.wake()
    turns.may_end.release()

    assert turns.began.acquire(timeout=PATIENCE)


def test_a_loop_that_is_stopped_takes_no_further_turn(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    loop.ask_to_stop()
    turns.may_end.release()

    assert loop.stop(PATIENCE)
    assert turns.number == 1


def test_a_turn_that_does_not_end_is_told(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)

    assert not loop.stop(0.0)


def test_a_loop_that_never_started_stops(loop):
    assert loop.stop(0.0)


def test_a_turn_that_raises_is_reported_and_repeated(world, loop, turns):
    turns.error = ValueError("odd")
    loop.start()
    turns.may_end.release()
    assert turns.began.acquire(timeout=PATIENCE)
    assert turns.began.acquire(timeout=PATIENCE)
    assert world.notes.parts["work-thread"] == "fail: ValueError('odd')"
    assert any(level == "error" and "odd" in said for level, said in world.notes.sentences)

    turns.error = None
    turns.rest = every(0.0)
    turns.may_end.release()
    assert turns.began.acquire(timeout=PATIENCE)
    assert world.notes.parts["work-thread"] == "pass"


def test_a_turn_that_lasts_is_overdue(world, loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    assert loop.overdue == 0.0

    world.clock.advance(7.0)

    assert loop.overdue == 7.0


def test_a_back_off_doubles_up_to_its_end_and_begins_anew():
    backoff = Backoff(first=1.0, last=5.0)

    assert [backoff.pause() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.reset()
    assert backoff.pause() == 1.0


class Systemd:
    """Counts how often it was told that we live."""

    fed = 0

    def alive(self) -> None:
        self.fed += 1


def test_the_watchdog_is_fed_while_there_is_progress_and_names_what_hangs(world, loop, turns):
    systemd = Systemd()
    watchdog = Watchdog(30.0, [loop], systemd, world.notes)
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)

    watchdog.look()
    assert (systemd.fed, world.notes.parts["watchdog"]) == (1, "pass")

    world.clock.advance(31.0)
    watchdog.look()
    assert (systemd.fed, world.notes.parts["watchdog"]) == (1, "fail: no progress: work for 31 s")
