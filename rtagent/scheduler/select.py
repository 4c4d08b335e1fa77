"""Scheduler: select hosts for the instances of a request, and remember the last decisions."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from rtagent.conf.scheduler import SchedulerOptions
from rtagent.errors import InvalidRequest, PlacementError, RtAgentError
from rtagent.model.base import Value
from rtagent.model.claim import MOVE_TYPES
from rtagent.model.server import RequestSpec, Selections
from rtagent.ports import Clock, Reporter
from rtagent.scheduler.claim_template import NO_OWNER, kind_of
from rtagent.scheduler.explanation import Explanation, explained
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.fits import Fits
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.ports import PlacementPort, Written
from rtagent.scheduler.replica import OTHERS, SHARED
from rtagent.scheduler.scheduling_call import Parts, SchedulingCall, TooManyQueries
from rtagent.scheduler.selecting import Selecting
from rtagent.scheduler.weighing import HostWeighers

#: Uuids with a meaning of their own in replicas and claim templates. No instance has them.
RESERVED = frozenset((NO_OWNER, OTHERS, SHARED))


#: How many decisions are kept.
KEPT = 1000
#: How many choices they have together. One request selects for at most 1,000 instances.
MAX_CHOICES = 4000


class Choice(Value, frozen=True, kw_only=True):
    """The hosts of one instance. :ivar alternates: names of their hosts."""

    instance_uuid: str
    host: str
    nodename: str
    operation_id: str
    weight: float
    alternates: tuple[str, ...] = ()


class LoggedDecision(Value, frozen=True, kw_only=True):
    """One request, and its outcome.

    :ivar flavor: its name or id. :ivar seconds: how long it took.
    :ivar hosts: how many were searched. :ivar refused: how many each filter refused.
    :ivar choices: of each instance; empty: none was made, because of the `error`.
    """

    at: datetime
    purpose: str
    flavor: str
    instances: int
    seconds: float
    hosts: int
    refused: Mapping[str, int]
    choices: tuple[Choice, ...] = ()
    error: str | None = None


class DecisionLog:
    """The last `KEPT` decisions, or fewer: with at most `MAX_CHOICES` choices together, but always
    the last one. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[LoggedDecision] = deque()
        self._choices = 0

    def add(self, decision: LoggedDecision) -> None:
        """Add the newest decision, and remove the oldest ones that are too many."""
        with self._lock:
            self._kept.appendleft(decision)
            self._choices += len(decision.choices)
            while len(self._kept) > 1 and (len(self._kept) > KEPT or self._choices > MAX_CHOICES):
                self._choices -= len(self._kept.pop().choices)

    def newest_first(self) -> Sequence[LoggedDecision]:
        """Return the decisions."""
        with self._lock:
            return tuple(self._kept)


class _Received:
    """A request, and when it came. :ivar instances: their number."""

    def __init__(self, spec: RequestSpec, instances: int, clock: Clock) -> None:
        self.spec, self.instances = spec, instances
        self.at, self.monotonic = clock.now(), clock.monotonic()


class Scheduler:
    """Selects hosts. Thread-safe.

    :param placement: None: without Placement.
    """

    def __init__(
        self,
        manager: HostManager,
        filters: HostFilters,
        weighers: HostWeighers,
        options: SchedulerOptions,
        placement: PlacementPort | None,
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        self._reporter, self._clock = reporter.named(__name__), clock
        self._log = DecisionLog()
        self._parts = Parts(
            manager=manager,
            filters=filters,
            weighers=weighers,
            options=options,
            placement=placement,
            clock=clock,
            fits=Fits(),
            assuming=threading.Lock(),
        )

    def reconfigure(
        self, filters: HostFilters, weighers: HostWeighers, options: SchedulerOptions
    ) -> None:
        """Use these for the calls that follow."""
        self._parts = replace(self._parts, filters=filters, weighers=weighers, options=options)

    def select_destinations(
        self,
        spec: RequestSpec,
        instance_uuids: Sequence[str],
        alternates: bool = False,
        claim: bool = True,
    ) -> tuple[Selections, ...]:
        """Select a host for each instance.

        The claim of each is assumed on its host until a report confirms it, `forget_claim` ends it,
        or ``[scheduler] assume_timeout`` has passed. If an instance finds no host, nothing of the
        request remains. A request replaces an earlier one for the same operation of an instance,
        whose answer may have been lost: the claims that the earlier one assumed are forgotten.

        :param alternates: add hosts to try if the selected one refuses.
        :param claim: False: nothing is assumed or written when the call returns.
        :raises NoValidHost: an instance finds no host.
        :raises InvalidFlavor: the request describes no valid guest.
        :raises SchedulingTimedOut: ``[scheduler] request_timeout`` has passed.
        :raises ConsumerHasAllocations: the request is a move, and the instance has allocations.
        :raises PlacementError: Placement does not answer, or refuses the query.
        """
        _check_instances(spec, instance_uuids)
        parts, received = self._parts, _Received(spec, len(instance_uuids), self._clock)
        if claim:
            parts.manager.forget_owners(frozenset(instance_uuids), kind_of(spec))
        selecting: Selecting | None = None
        try:
            began = received.monotonic
            needed = len(instance_uuids) + (parts.options.max_attempts if alternates else 0)
            call = SchedulingCall(parts, spec, instance_uuids, began, needed)
            selecting = Selecting(call, writes=claim)
            try:
                selected = selecting.select(alternates=alternates)
            except TooManyQueries:
                self._undo(selecting)
                selecting = None
                call = SchedulingCall(parts, spec, instance_uuids, began)
                selecting = Selecting(call, writes=claim)
                selected = selecting.select(alternates=alternates)
        except BaseException as error:
            self._failed(received, selecting, error)
            raise
        self._decided(received, selecting, selected)
        if not claim:
            self._undo(selecting)
        until = self._clock.monotonic() + parts.options.assume_timeout
        parts.manager.assumed_until(selecting.assumed, until)
        return selected

    def forget_claim(self, operation_id: str) -> bool:
        """Forget an assumed claim: the host refused it, or the instance was given up.

        :returns: whether it was known. Another scheduler may know it.
        """
        return self._parts.manager.forget_claim(operation_id)

    def explain(self, spec: RequestSpec, instance_uuid: str = NO_OWNER) -> Explanation:
        """Return the results of filters and weighers for each host. Nothing is assumed or written.

        :param instance_uuid: that moves. Its own claims do not count against it.
        :raises InvalidFlavor: PlacementError: as `select_destinations`.
        """
        began = self._clock.monotonic()
        return explained(SchedulingCall(self._parts, spec, [instance_uuid], began))

    def decisions(self) -> Sequence[LoggedDecision]:
        """Return the last decisions, newest first."""
        return self._log.newest_first()

    def _decided(
        self,
        received: _Received,
        selecting: Selecting | None,
        selected: Sequence[Selections] = (),
        error: BaseException | None = None,
    ) -> None:
        """Log a decision. :param selecting: None: it failed before a host was judged."""
        spec, seconds = received.spec, self._clock.monotonic() - received.monotonic
        weights = {} if selecting is None else selecting.weights
        self._reporter.timed("selection", spec.purpose, seconds)
        self._reporter.counted("selections", "ok" if error is None else type(error).__name__)
        choices = (
            Choice(
                instance_uuid=each.instance_uuid,
                host=each.selected.host,
                nodename=each.selected.nodename,
                operation_id=each.selected.operation_id,
                weight=weights[each.instance_uuid],
                alternates=tuple(other.host for other in each.alternates),
            )
            for each in selected
        )
        self._log.add(
            LoggedDecision(
                at=received.at,
                purpose=spec.purpose,
                flavor=spec.flavor.name or spec.flavor.flavorid,
                instances=received.instances,
                seconds=seconds,
                hosts=0 if selecting is None else selecting.searched,
                refused={} if selecting is None else dict(selecting.refused),
                choices=tuple(choices),
                error=None if error is None else _message(error),
            )
        )

    def _failed(
        self, received: _Received, selecting: Selecting | None, error: BaseException
    ) -> None:
        if selecting is not None:
            self._undo(selecting)
        self._decided(received, selecting, error=error)

    def _undo(self, selecting: Selecting) -> None:
        for operation_id in selecting.assumed:
            self._parts.manager.forget_claim(operation_id)
        for written in selecting.written:
            self._unwrite(written)

    def _unwrite(self, written: Written) -> None:
        placement = self._parts.placement
        assert placement is not None, "it has written them"
        try:
            placement.undo(written)
        except PlacementError as error:
            self._reporter.log(
                "error",
                f"the allocations of {written.consumer_uuid}, for which no host was selected,"
                f" remain in Placement: {error.message}",
            )


def _message(error: BaseException) -> str:
    return error.message if isinstance(error, RtAgentError) else repr(error)


def _check_instances(spec: RequestSpec, uuids: Sequence[str]) -> None:
    """:raises InvalidRequest: no instance is named, one is named twice, a uuid is reserved, or a
    move has several instances.
    """
    if not uuids:
        message = "names no instance"
    elif len(set(uuids)) < len(uuids):
        message = "names an instance twice"
    elif not RESERVED.isdisjoint(uuids):
        message = f"{min(RESERVED.intersection(uuids))} is reserved, and no instance has it"
    elif len(uuids) > 1 and spec.purpose in MOVE_TYPES:
        message = f"a {spec.purpose} is of one instance: select for each one in a call of its own"
    else:
        return
    errors = ({"path": "$.instance_uuids", "message": message},)
    raise InvalidRequest(method="select_destinations", errors=errors)
