"""CPU selection: the host CPUs of a cell for dedicated vCPUs, by ``hw:cpu_thread_policy``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rtagent.model.base import Value
from rtagent.numa.cpu_policies import ISOLATE, PREFER, REQUIRE
from rtagent.numa.host_cells import Core


class CpuSelection(Value, frozen=True, kw_only=True):
    """Host CPUs that a guest cell takes.

    :ivar pcpus: one for each dedicated vCPU; neighbours are on thread siblings where possible.
    :ivar reserved: CPUs for the emulator's threads.
    :ivar kept: thread siblings that nothing may use.
    """

    pcpus: tuple[int, ...] = ()
    reserved: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()


def prefer(cores: Sequence[Core], vcpus: int, reserved: int) -> CpuSelection | None:
    """Select thread siblings if some are free, else other threads.

    Cores are filled one after the other.
    """
    if vcpus + reserved > free_threads(cores):
        return None
    pcpus = _in_order(_filled(cores, vcpus))
    return CpuSelection(pcpus=pcpus, reserved=_for_emulator(cores, pcpus, reserved))


def isolate(cores: Sequence[Core], vcpus: int, reserved: int) -> CpuSelection | None:
    """Select one thread of each core. Nothing may use the other threads of that core.

    All threads of such a core must be free for pinning. On a host without SMT a core is one CPU,
    and this is plain pinning. The emulator's CPU has a core to itself, too, because its siblings
    would disturb it as much.
    """
    idle = [core for core in cores if core.idle][: vcpus + reserved]
    if len(idle) < vcpus + reserved:
        return None
    first = [core.free[0] for core in idle]
    return CpuSelection(
        pcpus=tuple(first[:vcpus]),
        reserved=frozenset(first[vcpus:]),
        kept=frozenset(thread for core in idle for thread in core.free[1:]),
    )


def require(cores: Sequence[Core], vcpus: int, reserved: int) -> CpuSelection | None:
    """Select thread siblings only.

    Every core that is used has two free threads or more, and gives two or more. If the number of
    vCPUs is odd, one core may give a single thread. The emulator's CPU need not be a sibling.
    """
    if vcpus > sibling_threads(cores) or vcpus + reserved > free_threads(cores):
        return None
    usable = _with_siblings(cores)
    pcpus = _in_order(_paired(_filled(usable, vcpus), usable))
    return CpuSelection(pcpus=pcpus, reserved=_for_emulator(cores, pcpus, reserved))


def free_threads(cores: Iterable[Core]) -> int:
    """Count the free threads of all the cores."""
    return sum(len(core.free) for core in cores)


def idle_cores(cores: Iterable[Core]) -> int:
    """Count the cores all of whose threads are free."""
    return sum(core.idle for core in cores)


def sibling_threads(cores: Iterable[Core]) -> int:
    """Count the free threads of the cores that have two or more of them."""
    return free_threads(_with_siblings(cores))


class ThreadPolicy(NamedTuple):
    """A value of ``hw:cpu_thread_policy``.

    :ivar select: choose CPUs, given the cores, the number of vCPUs and the number of emulator CPUs;
        None: there are too few.
    :ivar available: count the vCPUs that fit on the cores.
    :ivar unit: the unit of this count, for a refusal.
    :ivar eligible: whether a vCPU can be on a core.
    """

    select: Callable[[Sequence[Core], int, int], CpuSelection | None]
    available: Callable[[Sequence[Core]], int]
    unit: str
    eligible: Callable[[Core], bool]


POLICIES: Mapping[str, ThreadPolicy] = {
    PREFER: ThreadPolicy(prefer, free_threads, "CPUs", lambda core: bool(core.free)),
    ISOLATE: ThreadPolicy(isolate, idle_cores, "idle cores", lambda core: core.idle),
    REQUIRE: ThreadPolicy(
        require, sibling_threads, "free thread siblings", lambda core: len(core.free) > 1
    ),
}


def _filled(cores: Sequence[Core], number: int) -> list[tuple[int, ...]]:
    """Select this number of threads, by core. There must be enough.

    The cores with the most free threads are filled. The remaining threads come from the core on
    which they leave the fewest idle threads, so that whole cores stay free for guests that need
    them.
    """
    by_size: dict[int, list[Core]] = {}
    for core in cores:
        by_size.setdefault(len(core.free), []).append(core)
    selected: list[tuple[int, ...]] = []
    for size in sorted(by_size, reverse=True):
        for core in by_size[size]:
            if number <= size:
                tightest = min(other for other in by_size if number <= other <= size)
                last = core if tightest == size else by_size[tightest][0]
                return [*selected, last.free[:number]] if number else selected
            selected.append(core.free)
            number -= size
    return selected


def _with_siblings(cores: Iterable[Core]) -> tuple[Core, ...]:
    return tuple(core for core in cores if len(core.free) > 1)


def _paired(selected: list[tuple[int, ...]], cores: Sequence[Core]) -> list[tuple[int, ...]]:
    """Move a selected thread from a core with three or more to a core with a single one, if
    possible.
    """
    if not selected or len(selected[-1]) > 1:
        return selected
    *others, (single,) = selected
    for place, threads in enumerate(others):
        if len(threads) > 2:
            (core,) = (core for core in cores if single in core.free)
            return [*others[:place], threads[:-1], *others[place + 1 :], core.free[:2]]
    return selected


def _in_order(by_core: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the threads of several cores, one core after the other."""
    return tuple(thread for core in sorted(by_core) for thread in core)


def _for_emulator(cores: Sequence[Core], pcpus: Sequence[int], number: int) -> frozenset[int]:
    """Select this number of free threads in addition to those of the vCPUs, on other cores if
    possible. There must be enough.
    """
    if not number:
        return frozenset()
    selected = frozenset(pcpus)
    others = [
        (not selected.isdisjoint(core.free), len(core.free), thread)
        for core in cores
        for thread in core.free
        if thread not in selected
    ]
    return frozenset(thread for *_, thread in sorted(others)[:number])
