"""``prefer``: on thread siblings where there are some free, elsewhere otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.numa.room import Core
from rtagent.numa.threads.taking import Taking, beside, filled, free_threads, pinned

UNIT = "CPUs"


def available(cores: Sequence[Core]) -> int:
    """Every free thread will do."""
    return free_threads(cores)


def take(cores: Sequence[Core], number: int, reserved: int) -> Taking | None:
    """Cores are filled one after the other."""
    if number + reserved > available(cores):
        return None
    pcpus = pinned(filled(cores, number))
    return Taking(pcpus=pcpus, reserved=beside(cores, pcpus, reserved))
