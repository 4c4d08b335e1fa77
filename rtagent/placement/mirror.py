"""PlacementMirror: keeps Placement in step with this host.

It is level-triggered: a wake-up says that something may have changed, not what. Each round uses the
state of that moment, so that wake-ups may coalesce, repeat or come late.

The requests of a round carry the global request id of the call whose change caused the round; if
several did, that of the most recent one. A round that no call caused (after a start, an audit, or a
refresh) has an id of its own. A round that failed leaves its id to the next one.
"""

import random
import threading
from collections.abc import Callable, Sequence

import os_traits

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.model.change import Change
from rtagent.model.health import Status
from rtagent.model.node_state import NodeState
from rtagent.placement.client import (
    INVENTORY_IN_USE,
    PROVIDER_IN_USE,
    HttpPlacement,
    current_request_id,
    use_request_id,
)
from rtagent.placement.provider import Ownership, Tree
from rtagent.placement.schedule import PartHealth, Schedule
from rtagent.placement.synchroniser import PassResult, Synchroniser
from rtagent.placement.tree import affects_tree
from rtagent.ports import Clock, NullReporter, Reporter

#: The mirror's name in health and metrics.
PART = "placement"


class PlacementMirror:
    """Thread-safe. Only `turn` and methods with a timeout wait for Placement.

    :ivar revision: of the state that was published last; -1 before the first round succeeds. A
        later state with the same tree is published, too, by a round without requests.
    :ivar error: why the last round did not do everything, or None.
    """

    def __init__(
        self,
        api: HttpPlacement,
        wanted: Callable[[], Tree | None],
        ownership: Ownership,
        clock: Clock,
        reporter: Reporter | None = None,
        *,
        wake: Callable[[], None] = lambda: None,
        give_way: Callable[[], None] = lambda: None,
        prepare: Callable[[bool], bool] = lambda reading: False,
        refresh: Callable[[], float] = lambda: 0.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """:param wanted: returns the tree that Placement should have now; None if it is unknown.
        :param wake: makes the thread look at `due_in`. :param give_way: called before each provider
            of a round, for what is more urgent.
        :param prepare: called before each round publishes, with whether the round looks for what
            other writers changed; returns whether the wanted tree has changed. If it raises
            `PlacementError`, nothing is published but whether the host is disabled.
        :param refresh: returns the most seconds until a round looks for that again; 0: never.
        :param jitter: returns a number from 0 to 1, called at the end of each round: it shortens
            the pause after a failure, and the time until the next refresh.
        """
        self._wanted, self._prepare, self._clock = wanted, prepare, clock
        self._refresh, self._jitter = refresh, jitter
        self._reporter: Reporter = (reporter or NullReporter()).named(__name__)
        self._synchroniser = Synchroniser(api, ownership, self._reporter, give_way)
        self._condition = threading.Condition()
        self._schedule = Schedule()
        self._health, self._wake = PartHealth(PART, self._reporter), wake
        self._started = self._ended = 0
        self.revision = -1
        self._request_id = ""  # of the call that caused the next round
        self.error: PlacementError | None = None

    # -- status -----------------------------------------------------------------------------------

    @property
    def seconds_behind(self) -> float:
        """For how long Placement has lacked a change, or could not be read when that was due."""
        since = self._schedule.lacking_since
        return 0.0 if since is None else self._clock.monotonic() - since

    @property
    def due_in(self) -> float:
        """Seconds until the next round is due; infinity: only after a change."""
        return max(0.0, self._schedule.due(self._refresh()) - self._clock.monotonic())

    # -- requests ---------------------------------------------------------------------------------

    def listener(self, state: NodeState, changes: Sequence[Change]) -> None:
        """Wake if the changes may affect the tree. For `ResourceTracker.listen`."""
        if affects_tree(state, changes):
            caller = request_id_of(changes, lambda change: affects_tree(state, (change,)))
            with self._condition:
                self._request_id = caller or self._request_id
            self.wake()

    def wake(self) -> None:
        """Note that the tree may have changed."""
        with self._condition:
            self._schedule = self._schedule.wake(self._clock.monotonic())
        self._wake()

    def forget(self) -> None:
        """Read everything again soon: another client or the options may have changed something."""
        with self._condition:
            self._schedule = self._schedule.forget(self._clock.monotonic())
        self._wake()

    def sync_now(self, timeout: float, *, anew: bool = False) -> None:
        """Publish the current state without any pause, and wait until that is done. The requests
        carry the request id of the caller's thread.

        :param timeout: seconds. :param anew: read everything first, because another client may
            have changed something.
        :raises PlacementError: what failed. `PlacementUnavailable` also after the timeout.
        """
        with self._condition:
            now = self._clock.monotonic()
            schedule = self._schedule.forget(now) if anew else self._schedule
            self._schedule = schedule.request(now)
            self._request_id = current_request_id() or self._request_id
            self._wake()
            round_ = self._started + 1
            if not self._condition.wait_for(lambda: self._ended >= round_, timeout):
                raise PlacementUnavailable(f"Placement was not synchronised within {timeout} s")
            if self.error is not None:
                # Without the traceback of other callers: each would add its frames to it.
                raise self.error.with_traceback(None)

    # -- rounds -----------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Run a round if one is due, and return whether it was."""
        with self._condition:
            now = self._clock.monotonic()
            if self._schedule.due(self._refresh()) > now:
                return False
            self._schedule = self._schedule.start(now, self._refresh())
            self._started += 1
            request_id, self._request_id = self._request_id, ""
        try:
            self._round(request_id)
        except Exception as defect:  # the thread reports it
            failure = PlacementError(f"the Placement mirror has a defect: {defect!r}")
            self._end(PassResult(problems=(failure,)), request_id)
            raise
        return True

    def _round(self, request_id: str) -> None:
        started = self._clock.monotonic()
        use_request_id(request_id)
        if self._schedule.anew:
            self._synchroniser.forget()
        elif self._schedule.reading:
            self._synchroniser.look_again()
        outcome = self._publish()
        self._reporter.timed(PART, "sync", self._clock.monotonic() - started)
        self._end(outcome, request_id)
        self._report(outcome)

    def _publish(self) -> PassResult:
        tree = self._wanted()
        if tree is None:
            return PassResult()
        try:
            if self._prepare(self._schedule.reading):
                tree = self._wanted() or tree
        except PlacementError as error:
            return PassResult(revision=tree.revision, problems=(error, *self._warn(tree, error)))
        return self._synchroniser.sync(tree)

    def _warn(self, tree: Tree, error: PlacementError) -> Sequence[PlacementError]:
        """Publish whether the host is disabled, though nothing else can be published: a scheduler
        must not choose a host that is down. Return what failed.
        """
        if isinstance(error, PlacementUnavailable):
            return ()
        return self._synchroniser.sync_trait(tree, os_traits.COMPUTE_STATUS_DISABLED)

    def _end(self, outcome: PassResult, request_id: str = "") -> None:
        with self._condition:
            now = self._clock.monotonic()
            if outcome.problems:
                self._request_id = self._request_id or request_id
                self._schedule = self._schedule.fail(now, self._jitter())
            else:
                self._schedule = self._schedule.succeed(now, self._jitter())
                self.revision = outcome.revision
            self.error = next(iter(outcome.problems), None)
            self._ended += 1
            self._condition.notify_all()

    def _report(self, outcome: PassResult) -> None:
        if outcome.problems:
            transient = all(map(_is_transient, outcome.problems))
            text = "; ".join(problem.message for problem in outcome.problems)
            self._health.note(
                Status.WARN if transient else Status.FAIL,
                f"{self.seconds_behind:.0f} s behind, claims are served: {text}",
                tuple((type(p), p.kwargs.get("code")) for p in outcome.problems),
            )
        elif outcome.unknown_traits:
            names = ", ".join(sorted(outcome.unknown_traits))
            output = f"left out traits that Placement does not know: {names}"
            self._health.note(Status.WARN, output, names)
        else:
            self._health.note(Status.PASS)


def request_id_of(changes: Sequence[Change], matters: Callable[[Change], bool]) -> str:
    """Return the request id of the most recent change that matters and was caused by a call; "":
    there is none. A change that an audit planned has no request id.
    """
    caused = (c.request_id for c in reversed(changes) if c.request_id and matters(c))
    return next(caused, "")


def _is_transient(problem: PlacementError) -> bool:
    """Whether the problem may end without an operator."""
    in_use = problem.kwargs.get("code") in (INVENTORY_IN_USE, PROVIDER_IN_USE)
    return problem.retriable or in_use or isinstance(problem, PlacementConflict)
