"""Scheduler: select hosts for the instances of a request, and remember the last decisions."""

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

from msgspec.structs import replace

from rtagent.capacity.advice import Advice
from rtagent.conf.scheduler import SchedulerOptions
from rtagent.errors import InvalidRequest, PlacementError, RtAgentError
from rtagent.model.claim import MOVE_TYPES
from rtagent.model.server import RequestSpec, Selections
from rtagent.ports import Clock, Reporter
from rtagent.scheduler.claim_template import NO_OWNER, kind_of
from rtagent.scheduler.decision_log import Choice, Decision, DecisionLog, LoggedDecision
from rtagent.scheduler.explanation import Explanation, explained
from rtagent.scheduler.filtered import Refusals
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.fits import Fits
from rtagent.scheduler.fleet import advised, ask
from rtagent.scheduler.fleet_counts import Pace
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.ports import PlacementPort
from rtagent.scheduler.replica import OTHERS, SHARED
from rtagent.scheduler.scheduling_call import Parts, SchedulingCall, TooManyQueries
from rtagent.scheduler.selecting import Selecting, new_uuid
from rtagent.scheduler.weighing import HostWeighers

#: Seconds of CPU time after which a search for advice ends.
ADVICE_TIME = 10.0
#: Seconds after each ms of it for which others have the processor.
ADVICE_REST = 0.001
#: Uuids with a meaning of their own in replicas and claim templates. No instance has them.
RESERVED = frozenset((NO_OWNER, OTHERS, SHARED))


class _Received:
    """A request, and when it came."""

    def __init__(self, spec: RequestSpec, instance_uuids: Sequence[str], clock: Clock) -> None:
        self.spec, self.instance_uuids = spec, tuple(instance_uuids)
        self.at, self.monotonic = clock.now(), clock.monotonic()


class Scheduler:
    """Selects hosts. Thread-safe.

    :param placement: None: without Placement.
    :ivar parts: what a call works with at present.
    :ivar selecting: the calls that select at present.
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
        self.selecting: set[object] = set()
        self.parts = Parts(
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
        self.parts = replace(self.parts, filters=filters, weighers=weighers, options=options)

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
        parts, received = self.parts, _Received(spec, instance_uuids, self._clock)
        if claim:
            parts.manager.forget_owners(frozenset(instance_uuids), kind_of(spec))
        selecting: Selecting | None = None
        self.selecting.add(received)
        try:
            began = received.monotonic
            needed = len(instance_uuids) + (parts.options.max_attempts if alternates else 0)
            with ExitStack() as answers:
                call = SchedulingCall(parts, spec, instance_uuids, began, answers, needed)
                selecting = Selecting(call, writes=claim)
                try:
                    selected = selecting.select(alternates=alternates)
                except TooManyQueries:
                    self._undo(selecting)
                    selecting = None
                    call = SchedulingCall(parts, spec, instance_uuids, began, answers)
                    selecting = Selecting(call, writes=claim)
                    selected = selecting.select(alternates=alternates)
        except BaseException as error:
            if selecting is not None:
                self._undo(selecting)
            self._decided(received, selecting, error=error)
            raise
        finally:
            self.selecting.discard(received)
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
        return self.parts.manager.forget_claim(operation_id)

    def explain(self, spec: RequestSpec, instance_uuid: str = NO_OWNER) -> Explanation:
        """Return the results of filters and weighers for each host. Nothing is assumed or written.

        :param instance_uuid: that moves. Its own claims do not count against it.
        :raises InvalidFlavor: PlacementError: as `select_destinations`.
        """
        began = self._clock.monotonic()
        with ExitStack() as answers:
            call = SchedulingCall(self.parts, spec, [instance_uuid], began, answers)
        return explained(call)

    def advise(self, spec: RequestSpec, count: int) -> Advice:
        """Return what makes room for so many instances. Nothing is assumed, written or moved.

        :raises InvalidFlavor: InvalidRequest: as `ask`, and as the filters.
        """
        parts, ends = self.parts, time.thread_time() + ADVICE_TIME
        pace = Pace(lambda: bool(self.selecting), ADVICE_REST)

        def is_over() -> bool:
            pace()
            return time.thread_time() > ends

        return advised(ask(spec), count, parts, is_over)

    def decisions(self) -> Sequence[LoggedDecision]:
        """Return the last decisions, newest first."""
        return self._log.newest_first()

    def decision(self, name: str) -> Decision:
        """Return a decision with what it was made from, see `DecisionLog.find`.

        :raises DecisionNotFound:
        """
        return self._log.find(name)

    def _decided(
        self,
        received: _Received,
        selecting: Selecting | None,
        selected: Sequence[Selections] = (),
        error: BaseException | None = None,
    ) -> None:
        """Log a decision. :param selecting: None: it failed before a host was judged."""
        spec, seconds = received.spec, self._clock.monotonic() - received.monotonic
        comparisons = {} if selecting is None else selecting.comparisons
        self._reporter.timed("selection", spec.purpose, seconds)
        self._reporter.counted("selections", "ok" if error is None else type(error).__name__)
        choices = (
            Choice(
                instance_uuid=each.instance_uuid,
                host=each.selected.host,
                nodename=each.selected.nodename,
                operation_id=each.selected.operation_id,
                weight=comparisons[each.instance_uuid].selected.weight,
                alternates=tuple(other.host for other in each.alternates),
            )
            for each in selected
        )
        refusals = Refusals(0) if selecting is None else selecting.refusals
        logged = LoggedDecision(
            uuid=new_uuid(),
            at=received.at,
            purpose=spec.purpose,
            flavor=spec.flavor.name or spec.flavor.flavorid,
            instances=len(received.instance_uuids),
            seconds=seconds,
            hosts=refusals.searched,
            refused=dict(refusals.numbers),
            choices=tuple(choices),
            error=None if error is None else _message(error),
        )
        self._log.add(
            Decision(
                logged=logged,
                instance_uuids=received.instance_uuids,
                refusals=refusals.kept,
                comparisons={} if error is not None else comparisons,
            )
        )

    def _undo(self, selecting: Selecting) -> None:
        for operation_id in selecting.assumed:
            self.parts.manager.forget_claim(operation_id)
        for written in selecting.written:
            placement = self.parts.placement
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
    raise InvalidRequest.at("select_destinations", "$.instance_uuids", message)
