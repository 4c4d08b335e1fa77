"""Threads that run turns, and the pauses of a back-off."""

import threading

import pytest

from rtagent.service.loop import Backoff, Loop, Rest, every
from tests.unit.service.conftest import PATIENCE, Turns


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


def test_first_turn_runs_at_once_and_the_next_one_on_a_wake_up(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    turns.may_end.release()
    loop.wake()
    assert turns.began.acquire(timeout=PATIENCE)
    assert turns.number == 2


def test_wake_up_causes_only_one_turn(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    loop.wake()
    turns.may_end.release(3)

    assert turns.began.acquire(timeout=PATIENCE)
    assert not turns.began.acquire(timeout=0.1)


def test_wake_up_during_a_turn_is_not_lost(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    loop.wake()
    turns.may_end.release()

    assert turns.began.acquire(timeout=PATIENCE)


def test_stopped_loop_runs_no_further_turn(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    loop.ask_to_stop()
    turns.may_end.release()

    assert loop.stop(PATIENCE)
    assert turns.number == 1


def test_stop_reports_a_turn_that_does_not_end(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)

    assert not loop.stop(0.0)


def test_loop_that_never_started_stops(loop):
    assert loop.stop(0.0)


def test_turn_that_raises_is_reported_and_repeated(world, loop, turns):
    turns.error = ValueError("odd")
    loop.start()
    turns.may_end.release()
    assert turns.began.acquire(timeout=PATIENCE)
    assert turns.began.acquire(timeout=PATIENCE)
    assert world.notes.parts["work-thread"] == "fail: ValueError('odd')"
    assert any(level == "error" and "odd" in line for level, line in world.notes.sentences)

    turns.error = None
    turns.rest = every(0.0)
    turns.may_end.release()
    assert turns.began.acquire(timeout=PATIENCE)
    assert world.notes.parts["work-thread"] == "pass"


def test_turns_of_one_thread_run_in_the_order_of_their_urgency(world):
    """A turn that gives way runs what is more urgent than itself, between two of its steps."""
    loop, order, ended = Loop("work", None, world.clock, world.notes), [], threading.Event()

    def urgent():
        order.append("urgent")
        return Rest()

    def failing():
        order.append("failing")
        raise ValueError("odd")

    def long():
        order.append("long")
        first.wake()
        last.wake()
        loop.give_way()
        order.append("end")
        return Rest()

    def least():
        order.append("least")
        ended.set()
        return Rest()

    first, _, _, last = (loop.add(run.__name__, run) for run in (urgent, failing, long, least))
    loop.start()
    assert ended.wait(PATIENCE)
    assert loop.stop(PATIENCE)
    assert order == ["urgent", "failing", "long", "urgent", "end", "least"]
    assert world.notes.parts["failing-thread"] == "fail: ValueError('odd')"


def test_urgent_work_without_end_does_not_keep_the_other_turns(world):
    """Neither between two turns, nor while one gives way."""
    loop, order, ended = Loop("work", None, world.clock, world.notes), [], threading.Event()

    def endless():
        order.append("endless")
        if len(order) > 20:
            ended.set()  # the others were not reached
        return every(0.0)

    def long():
        order.append("long")
        loop.give_way()
        order.append("end")
        return Rest()

    def least():
        order.append("least")
        ended.set()
        return Rest()

    for run in (endless, long, least):
        loop.add(run.__name__, run)
    loop.start()
    assert ended.wait(PATIENCE)
    assert loop.stop(PATIENCE)
    assert order[:5] == ["endless", "long", "endless", "end", "least"]


def test_a_part_wakes_its_own_turn_only_also_if_it_is_made_before_the_turn(world):
    loop, order, ended = Loop("work", None, world.clock, world.notes), [], threading.Semaphore(0)
    wake = loop.waker("second")

    def run(name):
        order.append(name)
        ended.release()
        return Rest()

    loop.add("first", lambda: run("first"))
    loop.add("second", lambda: run("second"))
    loop.start()
    for _ in range(2):
        assert ended.acquire(timeout=PATIENCE)
    wake()
    assert ended.acquire(timeout=PATIENCE)
    assert loop.stop(PATIENCE)
    assert order == ["first", "second", "second"]


def test_turn_that_lasts_is_overdue(world, loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    (turn,) = loop.turns
    assert turn.overdue == 0.0

    world.clock.advance(7.0)

    assert turn.overdue == 7.0


def test_back_off_doubles_up_to_its_maximum_and_resets():
    backoff = Backoff(first=1.0, last=5.0, jitter=lambda: 1.0)

    assert [backoff.pause() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.reset()
    assert backoff.pause() == 1.0


def test_pause_can_be_longer_than_the_next_one():
    backoff = Backoff(first=1.0, last=10.0, jitter=lambda: 1.0)

    assert [backoff.pause(at_least) for at_least in (4.0, 4.0, 20.0, 0.0)] == [4.0, 8.0, 20.0, 10.0]
    backoff.reset()
    assert backoff.pause(0.5) == 1.0


def test_pauses_of_many_agents_differ():
    pauses = [Backoff(first=1.0).pause() for _ in range(100)]

    assert all(0.5 <= each <= 1.0 for each in pauses)
    assert len(set(pauses)) > 50
