"""ConductorCallers: the conductors of a run, in the place of callers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from rtagent.errors import RtAgentError
from tests.chaos.callers.step import Step
from tests.chaos.conductors.opening import opened
from tests.chaos.world.conductors import ConductorWorld


class ConductorCallers:
    """Starts the conductors, and has one of its own finish what they left behind."""

    def __init__(self, world: ConductorWorld) -> None:
        self._world = world

    def start(self) -> None:
        for part in self._world.conductors.values():
            part.process.start()

    resume = start

    def pause(self) -> list[str]:
        """Kill the conductors, wherever they are. Return an empty list: none is waited for."""
        for part in self._world.conductors.values():
            part.process.kill()
        return []

    close = pause

    def settle(self, timeout: float) -> Sequence[Step]:
        """Finish every operation. Return those that are not finished in time."""
        deadline = time.monotonic() + timeout
        file = next(iter(self._world.conductors.values())).daemon.config_file
        with opened(str(file)) as conductor:
            while conductor.unfinished() and time.monotonic() < deadline:
                for operation in conductor.resume():
                    with suppress(RtAgentError):
                        conductor.work(operation)
            return [
                Step(
                    host="",
                    method=f"{left.kind}.{left.step} ({left.error})",
                    arguments={},
                    operation_id=left.uuid,
                )
                for left in conductor.unfinished()
            ]

    def check(self) -> None:
        """Do nothing: a conductor that ends is a fault of its own."""
