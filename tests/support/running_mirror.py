"""RunningMirror: a mirror whose turns are those of a thread."""

import time
from contextlib import suppress
from typing import Any

from rtagent.errors import PlacementError
from rtagent.placement.mirror import PlacementMirror
from rtagent.ports import NullReporter
from rtagent.service.loop import Loop, Rest


class RunningMirror(PlacementMirror):
    """:param arguments: as of `PlacementMirror`: api, wanted, ownership, clock and reporter."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        clock = arguments[3]
        reporter = arguments[4] if len(arguments) > 4 else NullReporter()
        self._loop = Loop("mirror", None, clock, reporter)
        super().__init__(*arguments, wake=self._loop.wake, **options)
        self._loop.add("mirror", self._run_turn)

    def start(self) -> None:
        """Start the thread. The first round is due at once."""
        with suppress(PlacementError):
            self.sync_now(0)
        self._loop.start()

    def stop(self, timeout: float = 5.0) -> bool:
        """Start no further round. Return whether the running one ended within `timeout` seconds."""
        return self._loop.stop(timeout)

    def wait_synced(self, revision: int, timeout: float) -> bool:
        """Whether Placement has that revision, or a later one, within `timeout` seconds."""
        self.wake()
        deadline = time.monotonic() + timeout
        while self.revision < revision and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.revision >= revision

    def _run_turn(self) -> Rest:
        self.turn()
        return Rest(at_most=self.due_in)
