"""Which host CPUs dedicated vCPUs get: one policy to a module, named by its option value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rtagent.numa.room import Core
from rtagent.numa.threads import isolate, prefer, require
from rtagent.numa.threads.taking import Taking


class Threads(Protocol):
    """A policy."""

    #: What it counts, for a refusal to name.
    UNIT: str

    def available(self, cores: Sequence[Core]) -> int:
        """How many vCPUs can be had."""
        ...

    def take(self, cores: Sequence[Core], number: int, reserved: int) -> Taking | None:
        """CPUs for so many vCPUs, and beside them some for the emulator; None: it cannot be."""
        ...


POLICIES: Mapping[str, Threads] = {"prefer": prefer, "isolate": isolate, "require": require}

__all__ = ["POLICIES", "Taking", "Threads"]
