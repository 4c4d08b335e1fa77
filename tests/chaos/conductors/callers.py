"""ConductorCallers: the conductors of a run, in the place of callers."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rtagent.errors import RtAgentError
from tests.chaos.callers.step import Step
from tests.chaos.conductors.opening import ENDS, opened
from tests.chaos.world.conductors import ConductorWorld
from tests.chaos.world.part import DaemonPart
from tests.servers.daemon import wait_until

#: Seconds within which a conductor ends its operation, when nothing is at fault.
ENDED = 60.0


class ConductorCallers:
    """Starts the conductors, and has one of its own finish what they left behind."""

    def __init__(self, world: ConductorWorld) -> None:
        self._world = world

    def start(self) -> None:
        for part in self._world.conductors.values():
            _ends(part).unlink(missing_ok=True)
            part.process.start()

    resume = start

    def pause(self) -> list[str]:
        """End the conductors after the operations that they make, and kill what does not end.

        Return an empty list: their operations are finished by another one.
        """
        parts = self._world.conductors.values()
        for part in parts:
            _ends(part).touch()
        with suppress(TimeoutError):
            wait_until(lambda: not any(part.process.running for part in parts), ENDED)
        self.close()
        return []

    def close(self) -> None:
        for part in self._world.conductors.values():
            part.process.kill()

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


def _ends(part: DaemonPart) -> Path:
    return part.daemon.config_file.with_name(ENDS)
