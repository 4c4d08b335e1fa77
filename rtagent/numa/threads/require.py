"""``require``: on thread siblings only. Every core taken from has two free threads or more, and
gives two or more; one at most, where the number is odd, gives one."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.numa.room import Core
from rtagent.numa.threads.taking import Taking, beside, filled, free_threads, pinned

UNIT = "free thread siblings"


def available(cores: Sequence[Core]) -> int:
    """The free threads of cores with two or more."""
    return free_threads(_with_siblings(cores))


def take(cores: Sequence[Core], number: int, reserved: int) -> Taking | None:
    """The emulator's CPU need not be a sibling."""
    if number > available(cores) or number + reserved > free_threads(cores):
        return None
    usable = _with_siblings(cores)
    pcpus = pinned(_paired(filled(usable, number), usable))
    return Taking(pcpus=pcpus, reserved=beside(cores, pcpus, reserved))


def _with_siblings(cores: Sequence[Core]) -> tuple[Core, ...]:
    return tuple(core for core in cores if len(core.free) > 1)


def _paired(taken: list[tuple[int, ...]], cores: Sequence[Core]) -> list[tuple[int, ...]]:
    """A vCPU alone on its core gets company from a core of three or more, if there is one."""
    if not taken or len(taken[-1]) > 1:
        return taken
    *others, (alone,) = taken
    for place, threads in enumerate(others):
        if len(threads) > 2:
            (core,) = (core for core in cores if alone in core.free)
            return [*others[:place], threads[:-1], *others[place + 1 :], core.free[:2]]
    return taken
