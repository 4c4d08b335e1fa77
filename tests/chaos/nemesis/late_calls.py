"""Late calls: a conductor is suspended while it makes a call, until another one has taken over.

What the call needs is held up first, so that the conductor is never too fast to be caught: the lock
of a simulated host's file, or its link to the broker or to Placement.
"""

import fcntl
import os
import re
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import ClassVar

from tests.chaos.nemesis.fault import Fault, NotYet
from tests.chaos.world.part import DaemonPart
from tests.chaos.world.world import World

#: Seconds that a conductor is suspended at least. Others finish its operation and begin the next
#: ones meanwhile. The broker keeps a connection without heartbeats for longer.
SUSPENSION = 8.0
#: Seconds between two looks for a conductor that makes a call.
_LOOK = 0.02
#: The calls that are held up, by the server: all that do more than read.
_CALLS = {
    "broker": re.compile(rb'\\"method\\": ?\\"(?!ping|get_)'),
    "placement": re.compile(rb"^(PUT|POST|DELETE) "),
}


class LateCall(Fault):
    """Waits until a conductor makes a call, and suspends it until the end.

    The detail ``suspended`` of the end is the name of this conductor.
    """

    family = "conductor"

    def __init__(self) -> None:
        super().__init__()
        self._over, self._until = threading.Event(), 0.0
        self._conductor: DaemonPart | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def applies(cls, world: World) -> bool:
        return bool(world.conductors)

    def begin(self, world: World, random: Random) -> None:
        self._hold_up(world, random)
        self._thread = threading.Thread(target=self._watch, name=self.name, daemon=True)
        self._thread.start()

    def end(self, world: World) -> None:
        """:raises NotYet: the others have had too little time."""
        caught = self._conductor
        if caught is not None and caught.process.paused and time.monotonic() < self._until:
            raise NotYet(f"{caught.name} is suspended")
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._deliver()
        if self._conductor is not None:
            self._conductor.process.resume()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK):
            if conductor := self._caught():
                conductor.process.pause()
                self._conductor, self._until = conductor, time.monotonic() + SUSPENSION
                self.details["suspended"] = conductor.name
                break
        self._let_others_in()

    def _hold_up(self, world: World, random: Random) -> None:
        """Draw the target, and hold up calls to it or of it."""
        raise NotImplementedError

    def _caught(self) -> DaemonPart | None:
        """Return the conductor whose call is held up."""
        raise NotImplementedError

    def _let_others_in(self) -> None:
        """End what holds up the calls of others."""

    def _deliver(self) -> None:
        """End what holds up the call of the one that was caught."""


class LateOrder(LateCall):
    """A conductor is suspended that waits for the lock of a host, to change a domain there."""

    name = "late-order"

    def _hold_up(self, world: World, random: Random) -> None:
        self.target = "all hosts"
        self._conductors = list(world.conductors.values())
        hosts = [world.agents[name].directory.resolve() for name in world.simulated]
        self._locks = {host: os.open(host, os.O_RDONLY | os.O_DIRECTORY) for host in hosts}

    def _caught(self) -> DaemonPart | None:
        locked = [host for host, lock in self._locks.items() if _lock(lock)]
        return next((each for each in self._conductors if _waits(each, locked)), None)

    def _let_others_in(self) -> None:
        for lock in self._locks.values():
            os.close(lock)


def _lock(directory: int) -> bool:
    """Lock a directory, unless another process has it. Return whether it is locked."""
    with suppress(BlockingIOError):
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _waits(conductor: DaemonPart, locked: Collection[Path]) -> bool:
    """Return whether a conductor has opened a directory that is locked."""
    with suppress(OSError):  # it has ended
        files = Path(f"/proc/{conductor.process.pid}/fd").iterdir()
        return any(_target(file) in locked for file in files)
    return False


def _target(link: Path) -> Path | None:
    with suppress(OSError):  # it was closed
        return link.readlink()
    return None


class LateMessage(LateCall):
    """A conductor is suspended whose call is on the way. It arrives at the end.

    :ivar server: the part to which it is on the way.
    """

    server: ClassVar[str]

    def _hold_up(self, world: World, random: Random) -> None:
        self.target = random.choice(sorted(world.conductors))
        self._sender = world.conductors[self.target]
        self._link = world.link(self.target, self.server)
        self._held = self._link.hold(_CALLS[self.server])

    def _caught(self) -> DaemonPart | None:
        return self._sender if self._held.is_set() else None

    def _deliver(self) -> None:
        self._link.heal()


class LateBrokerCall(LateMessage):
    """To an agent or a scheduler."""

    name, server = "late-call", "broker"
    excludes: ClassVar[frozenset[str]] = frozenset({"link-broker"})


class LateAllocation(LateMessage):
    """To Placement."""

    name, server = "late-allocation", "placement"
    excludes: ClassVar[frozenset[str]] = frozenset({"link-placement"})
