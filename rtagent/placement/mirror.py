"""PlacementMirror: keeps Placement showing what this host offers, on a thread of its own.

Level-triggered: a wake-up says that something may have changed, never what. Each round takes the
state of that moment, so that wake-ups may coalesce, repeat or come late.
"""

from __future__ import annotations

import math
import random
import threading
import traceback
from collections.abc import Callable, Sequence

from oslo_context import context

from rtagent.errors import PlacementError, PlacementUnavailable
from rtagent.model.change import Change
from rtagent.model.host import HostState
from rtagent.placement import report
from rtagent.placement.agenda import Agenda
from rtagent.placement.ownership import Ownership
from rtagent.placement.provider import Tree
from rtagent.placement.synchroniser import Synced, Synchroniser
from rtagent.placement.tree import concerns
from rtagent.ports import Clock, PlacementAPI, Reporter, Silence

#: Seconds that `stop` waits for a request in flight.
STOP_TIMEOUT = 5.0


class PlacementMirror:
    """Thread-safe. Only `turn`, `stop` and what takes a timeout waits for Placement."""

    def __init__(
        self,
        api: PlacementAPI,
        wanted: Callable[[], Tree | None],
        ownership: Ownership,
        clock: Clock,
        reporter: Reporter | None = None,
        *,
        refresh: Callable[[], float] = lambda: 0.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """:param wanted: what Placement shall show now; None while that is not known.
        :param refresh: seconds after which everything is read again; 0: never.
        :param jitter: 0 to 1, anew for each back-off.
        """
        self._wanted, self._clock = wanted, clock
        self._refresh, self._jitter = refresh, jitter
        self._reporter: Reporter = reporter or Silence()
        self._synchroniser = Synchroniser(api, ownership, self._reporter)
        self._condition = threading.Condition()
        self._agenda = Agenda()
        self._report = report.Report(self._reporter)
        self._begun = self._ended = 0
        self._stopping = False
        self._revision = -1
        self._error: PlacementError | None = None
        self._thread = threading.Thread(target=self._run, name="placement", daemon=True)

    def __repr__(self) -> str:
        behind = f"{self.seconds_behind:.1f} s behind" if self.seconds_behind else "up to date"
        return f"<PlacementMirror r{self.revision} {behind}>"

    # -- what it has done -------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """Placement shows the state of this revision, or of a later one that looks the same; -1:
        none was mirrored yet."""
        return self._revision

    @property
    def seconds_behind(self) -> float:
        """How long Placement has not shown a change, or could not be read when it was time."""
        since = self._agenda.behind_since
        return 0.0 if since is None else self._clock.monotonic() - since

    @property
    def error(self) -> PlacementError | None:
        """Why the last round did not do everything, or None."""
        return self._error

    @property
    def due_in(self) -> float:
        """Seconds until the next round is due; infinity: only after a change."""
        return max(0.0, self._agenda.due(self._refresh()) - self._clock.monotonic())

    # -- what it is told --------------------------------------------------------------------------

    def listener(self, state: HostState, changes: Sequence[Change]) -> None:
        """For `ResourceTracker.listen`: wakes when what Placement shows may have changed."""
        if concerns(state, changes):
            self.wake()

    def wake(self) -> None:
        """What Placement shows may have changed."""
        with self._condition:
            self._agenda = self._agenda.woken(self._clock.monotonic())
            self._condition.notify_all()

    def forget(self) -> None:
        """Read everything again, soon: somebody may have changed Placement, or the options."""
        with self._condition:
            self._agenda = self._agenda.forgotten(self._clock.monotonic())
            self._condition.notify_all()

    def sync_now(self, timeout: float, *, anew: bool = False) -> None:
        """Mirror the present state without any pause; waits until it is done.

        :param anew: read everything again first: somebody may have changed Placement.
        :raises PlacementError: why it is not; `PlacementUnavailable` also after `timeout` seconds.
        """
        with self._condition:
            now = self._clock.monotonic()
            agenda = self._agenda.forgotten(now) if anew else self._agenda
            self._agenda = agenda.urged(now)
            self._condition.notify_all()
            ours = self._begun + 1
            if not self._condition.wait_for(lambda: self._ended >= ours, timeout):
                raise PlacementUnavailable(f"Placement was not brought up to date in {timeout} s")
            if self._error is not None:
                raise self._error

    def wait_synced(self, revision: int, timeout: float) -> bool:
        """Whether Placement shows that revision, or a later one, within so many seconds."""
        self.wake()
        with self._condition:
            return self._condition.wait_for(lambda: self._revision >= revision, timeout)

    # -- its life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Mirror from now on, at once."""
        self._agenda = self._agenda.urged(self._clock.monotonic())
        self._thread.start()

    def stop(self, timeout: float = STOP_TIMEOUT) -> bool:
        """No round begins any more; whether the last one has ended within so many seconds.

        One that has not is left to end with the process: the next start compares everything.
        """
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def turn(self) -> bool:
        """Run a round, if one is due, in the caller's thread; whether it was."""
        with self._condition:
            now = self._clock.monotonic()
            if self._agenda.due(self._refresh()) > now:
                return False
            self._agenda = self._agenda.begun(now, self._refresh())
            self._begun += 1
        self._round()
        return True

    def _run(self) -> None:
        while self._wait():
            try:
                self.turn()
            except Exception as defect:
                self._reporter.said("error", f"placement: {traceback.format_exc()}")
                failure = PlacementError(f"the mirror itself failed: {defect!r}")
                self._end(Synced(problems=(failure,)))

    def _wait(self) -> bool:
        """Until a round is due; False: the end."""
        with self._condition:
            while not self._stopping and (pause := self.due_in) > 0:
                self._condition.wait(None if math.isinf(pause) else pause)
            return not self._stopping

    def _round(self) -> None:
        started = self._clock.monotonic()
        context.RequestContext()  # becomes the thread's: its id is in our log and in Placement's
        if self._agenda.reading:
            self._synchroniser.forget()
        tree = self._wanted()
        synced = Synced() if tree is None else self._synchroniser.sync(tree)
        self._reporter.timed(report.PART, "sync", self._clock.monotonic() - started)
        self._end(synced)
        self._report.tell(synced, self.seconds_behind)

    def _end(self, synced: Synced) -> None:
        with self._condition:
            now = self._clock.monotonic()
            if synced.problems:
                self._agenda = self._agenda.failed(now, self._jitter())
            else:
                self._agenda = self._agenda.done(now)
                self._revision = synced.revision
            self._error = next(iter(synced.problems), None)
            self._ended += 1
            self._condition.notify_all()
