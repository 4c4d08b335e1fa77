"""Fault: what every family of faults has in common."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from tests.chaos.world.world import World

#: The values of the detail ``lenient``: what the checker may accept because of a fault.
RESTORED = "restored"  # claims later than the copy may be missing, if the agent says StoreRestored
POWERLESS = "powerless"  # the domains that ran on the target before do not run


#: Every fault that has a name, by it.
FAULTS: dict[str, type[Fault]] = {}


class NotYet(Exception):
    """A fault cannot end while another one goes on; the message says why."""


class Fault(ABC):
    """One fault, from `begin` to `end`. An instance is used once.

    :ivar name: in the history and on the command line.
    :ivar family: of two faults of a family only one goes on at a time, because the second would
        change what the first ends with.
    :ivar excludes: the families of faults that need what this one takes away.
    :ivar target: what it was injected into; known after `begin`.
    :ivar details: what the history records with its begin, or with its end.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    excludes: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            FAULTS[cls.name] = cls

    def __init__(self) -> None:
        self.target = ""
        self.details: dict[str, Any] = {}

    @classmethod
    def applies(cls, world: World) -> bool:
        """Return whether this world can have the fault."""
        return True

    @abstractmethod
    def begin(self, world: World, random: random.Random) -> None:
        """Inject it. What is open is drawn from `random`."""

    @abstractmethod
    def end(self, world: World) -> None:
        """End it. What was broken runs again when this returns, though it may still recover.

        It is called after a `begin` that failed, too.

        :raises NotYet: it is called again later.
        """


def one_agent(world: World, random: random.Random) -> str:
    """Draw a host."""
    return random.choice(sorted(world.agents))
