"""Which threads count as hung."""

from rtagent.service.loop import Loop, every
from rtagent.service.systemd import Liveness
from tests.support.hosts import ManualClock
from tests.unit.service.turns import PATIENCE, Turns


def test_a_process_that_starts_is_alive():
    clock = ManualClock()
    liveness = Liveness(clock)
    clock.advance(10_000)
    assert liveness.hung() == ()


def test_a_main_thread_without_progress_hangs():
    clock = ManualClock()
    liveness = Liveness(clock)
    clock.advance(10_000)
    liveness.watch([], 300.0)
    clock.advance(300)
    assert liveness.hung() == ()
    clock.advance(1)
    assert liveness.hung() == ("main for 301 s",)
    liveness.beat()
    assert liveness.hung() == ()


def test_a_turn_that_does_not_end_hangs_and_a_rest_does_not(world):
    turns, clock = Turns(), world.clock
    turns.rest = every(1000)
    loop, liveness = Loop("work", turns, clock, world.notes), Liveness(clock)
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)
    liveness.watch(loop.turns, 300.0)
    clock.advance(301)
    liveness.beat()
    assert liveness.hung() == ("work for 301 s",)
    loop.ask_to_stop()
    turns.may_end.release()
    assert loop.stop(PATIENCE)
    assert liveness.hung() == ()
