"""systemd's watchdog is fed while the vital threads make progress."""

from rtagent.service.loop import Loop, every
from rtagent.service.systemd import Liveness, Watchdog
from tests.support.hosts import ManualClock
from tests.unit.service.conftest import PATIENCE, Turns


class CountingNotifier:
    """Counts how often the watchdog was fed."""

    fed = 0

    def alive(self) -> None:
        self.fed += 1


def test_watchdog_is_fed_during_progress_and_rests_and_names_a_loop_that_hangs(world):
    turns, notifier = Turns(), CountingNotifier()
    turns.rest = every(1000)
    loop = Loop("work", turns, world.clock, world.notes)
    liveness = Liveness(world.clock)
    liveness.watch(loop.turns, 30.0, loop.turns)
    watchdog = Watchdog(liveness, notifier, world.notes)
    loop.start()
    assert turns.began.acquire(timeout=PATIENCE)

    watchdog.check()
    assert (notifier.fed, world.notes.texts["watchdog"]) == (1, "pass")

    world.clock.advance(31.0)
    watchdog.check()
    assert (notifier.fed, world.notes.texts["watchdog"]) == (1, "fail: no progress: work for 31 s")
    loop.ask_to_stop()
    turns.may_end.release()
    assert loop.stop(PATIENCE)

    world.clock.advance(999.0)  # a rest
    watchdog.check()
    assert (notifier.fed, world.notes.texts["watchdog"]) == (2, "pass")


def test_watchdog_is_fed_although_a_turn_hangs_that_nothing_depends_on(world):
    notifier, liveness = CountingNotifier(), Liveness(world.clock)
    loop = Loop("turns", Turns(), world.clock, world.notes)  # never runs
    liveness.watch([], 30.0, loop.turns)
    watchdog = Watchdog(liveness, notifier, world.notes)
    world.clock.advance(31.0)
    watchdog.check()
    assert (notifier.fed, world.notes.texts["watchdog"]) == (1, "warn: no progress: turns for 31 s")


def test_a_main_thread_without_progress_hangs():
    clock = ManualClock()
    liveness = Liveness(clock)
    clock.advance(10_000)
    assert liveness.hung() == ()  # the process starts
    liveness.watch([], 300.0)
    clock.advance(300)
    assert liveness.hung() == ()
    clock.advance(1)
    assert liveness.hung() == ("main for 301 s",)
    liveness.beat()
    assert liveness.hung() == ()
