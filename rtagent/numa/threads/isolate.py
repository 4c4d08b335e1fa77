"""``isolate``: one thread of a core, whose other threads nobody may use; so all of the core must be
free for pinning. On a host without SMT a core is a CPU, and this is plain pinning."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.numa.room import Core
from rtagent.numa.threads.taking import Taking

UNIT = "idle cores"


def available(cores: Sequence[Core]) -> int:
    """Cores all of whose threads are free."""
    return sum(core.idle for core in cores)


def take(cores: Sequence[Core], number: int, reserved: int) -> Taking | None:
    """The emulator's CPU has its core to itself, too: its siblings would disturb it as much."""
    idle = [core for core in cores if core.idle][: number + reserved]
    if len(idle) < number + reserved:
        return None
    first = [core.free[0] for core in idle]
    return Taking(
        pcpus=tuple(first[:number]),
        reserved=frozenset(first[number:]),
        kept=frozenset(thread for core in idle for thread in core.free[1:]),
    )
