"""Clocks: the time of day of one host is set a day forward or back."""

from __future__ import annotations

from random import Random

from tests.chaos.nemesis.fault import Fault, one_agent
from tests.chaos.world.world import World

DAY = 86400


class ClockStep(Fault):
    """The agent's time of day jumps, and jumps back at the end."""

    name = "clock-step"
    family = "clock"

    def begin(self, world: World, random: Random) -> None:
        self.target = one_agent(world, random)
        self.details["seconds"] = seconds = random.choice([DAY, -DAY])
        world.clocks[self.target].step(seconds)

    def end(self, world: World) -> None:
        if self.target:
            world.clocks[self.target].step(0)


FAULTS: list[type[Fault]] = [ClockStep]
