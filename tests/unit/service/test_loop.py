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


def test_first_turn_runs_at_once_and_a_wake_up_causes_one_more(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    loop.wake()  # during a turn
    turns.may_end.release(3)
    assert turns.began.acquire(timeout=PATIENCE)
    assert not turns.began.acquire(timeout=0.1)

    loop.wake()
    assert turns.began.acquire(timeout=PATIENCE)


def test_stopped_loop_runs_no_further_turn(loop, turns):
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    assert not loop.stop(0.0)  # the turn has not ended

    turns.may_end.release()
    assert loop.stop(PATIENCE)
    assert turns.number == 1


def test_loop_that_never_started_stops(loop):
    assert loop.stop(0.0)


def test_turn_that_raises_is_reported_and_repeated(world, loop, turns):
    turns.error = ValueError("odd")
    loop.start()
    turns.may_end.release()
    assert turns.began.acquire(timeout=PATIENCE)
    assert turns.began.acquire(timeout=PATIENCE)
    assert world.notes.texts["work-thread"] == "fail: ValueError('odd')"
    assert any(level == "error" and "odd" in line for level, line in world.notes.logged)

    turns.error = None
    turns.rest = every(0.0)
    turns.may_end.release()
    assert turns.began.acquire(timeout=PATIENCE)
    assert world.notes.texts["work-thread"] == "pass"


UNTIL_WOKEN = Rest()


class Ordered:
    """A thread whose turns note in `order` when they run."""

    def __init__(self, world) -> None:
        self.loop, self.order = Loop("work", None, world.clock, world.notes), []
        self.ended = threading.Event()

    def add(self, name, work=lambda: None, rest=UNTIL_WOKEN):
        def run():
            self.order.append(name)
            work()
            return rest

        return self.loop.add(name, run)

    def give_way(self) -> None:
        self.loop.give_way()
        self.order.append("end")

    def run(self) -> list[str]:
        """Run turns until the event `ended`."""
        self.loop.start()
        assert self.ended.wait(PATIENCE)
        assert self.loop.stop(PATIENCE)
        return self.order


def test_turns_of_one_thread_run_in_the_order_of_their_urgency(world):
    """A turn that gives way runs what is more urgent than itself, between two of its steps."""
    ours = Ordered(world)

    def fail():
        raise ValueError("odd")

    def long():
        first.wake()
        last.wake()
        ours.give_way()

    first = ours.add("urgent")
    ours.add("failing", fail)
    ours.add("long", long)
    last = ours.add("least", ours.ended.set)
    assert ours.run() == ["urgent", "failing", "long", "urgent", "end", "least"]
    assert world.notes.texts["failing-thread"] == "fail: ValueError('odd')"


def test_urgent_work_without_end_does_not_keep_the_other_turns(world):
    """Neither between two turns, nor while one gives way."""
    ours = Ordered(world)

    def endless():
        if len(ours.order) > 20:
            ours.ended.set()  # the others were not reached

    ours.add("endless", endless, every(0.0))
    ours.add("long", ours.give_way)
    ours.add("least", ours.ended.set)
    assert ours.run()[:5] == ["endless", "long", "endless", "end", "least"]


def test_a_part_wakes_its_own_turn_only_also_if_it_is_made_before_the_turn(world):
    ours = Ordered(world)
    wake = ours.loop.waker("second")
    ours.add("first")
    ours.add("second", lambda: ours.ended.set() if ours.order.count("second") > 1 else wake())
    assert ours.run() == ["first", "second", "second"]


def test_back_off_doubles_up_to_its_maximum_and_resets():
    backoff = Backoff(first=1.0, last=5.0, jitter=lambda: 1.0)

    assert [backoff.pause() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.reset()
    assert [backoff.pause(at_least) for at_least in (0.5, 3.0, 20.0, 0.0)] == [1.0, 3.0, 20.0, 5.0]


def test_pauses_of_many_agents_differ():
    pauses = [Backoff(first=1.0).pause() for _ in range(100)]

    assert all(0.5 <= each <= 1.0 for each in pauses)
    assert len(set(pauses)) > 50
