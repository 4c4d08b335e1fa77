"""HostReports: report the state of the host, and its instances, to all schedulers."""

import contextlib
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rtagent.api.address import page_url
from rtagent.bus import StatePublished
from rtagent.embedded import EmbeddedNode
from rtagent.model import host_report
from rtagent.model.base import Value
from rtagent.model.metric import Metric
from rtagent.model.node_state import NodeState
from rtagent.rpc import casts
from rtagent.rpc.casts import CastFailed, CastMessage, Numbered
from rtagent.scheduler.report import (
    description_of,
    digest_of,
    instances_digest,
    instances_of,
    report_of,
    without_devices,
)
from rtagent.service.admission import Admission
from rtagent.service.context import (
    DuplicateChanged,
    Granting,
    HypervisorLost,
    NodeContext,
    Reloaded,
    ServiceChanged,
)
from rtagent.service.heartbeat import Heartbeat
from rtagent.service.loop import Rest, every

PART = "host-reports"
#: Seconds between two attempts while the broker cannot be used.
RETRY_INTERVAL = 5.0
#: More instances than these that have left at once are reported by the whole list.
MAX_REMOVED = 4
#: What became of a report.
SENT, DROPPED = "sent", "dropped"
#: The reason why an agent that stops grants no claims.
STOPPING = "the agent stops"

Send = Callable[[Sequence[CastMessage]], None]


class _WantedReport(Value, frozen=True, kw_only=True):
    """What schedulers asked for. :ivar due: when it is sent, on the monotonic clock."""

    due: float
    description: bool
    instances: bool


class _Described(Value, frozen=True, kw_only=True):
    """The last description. :ivar parts: what it was made of, found again by identity.
    :ivar beyond: why schedulers refuse it.
    """

    parts: tuple[object, ...]
    description: host_report.HostDescription
    digest: str
    beyond: tuple[str, ...]


class HostReports:
    """The turns of the thread ``host-reports``. Other threads only note that something changed.

    A message that cannot be sent is dropped; the next ones are complete.
    """

    def __init__(
        self,
        context: NodeContext,
        node: EmbeddedNode,
        admission: Admission,
        heartbeat: Heartbeat,
        send: Send,
        metrics: Callable[[], tuple[Metric, ...]],
        wake: Callable[[], None],
    ) -> None:
        """:param send: casts to all schedulers in bounded time; raises `CastFailed`.
        :param metrics: returns what the compute monitors have measured.
        :param wake: runs the next turn soon.
        """
        self._context, self._tracker = context, node.tracker
        self._admission, self._heartbeat, self._send = admission, heartbeat, send
        self._metrics, self._wake = metrics, wake
        self._reporter = context.reporter.named(__name__)
        for outcome in (SENT, DROPPED):
            self._reporter.counted("host_reports", outcome, 0)
        self._changed, self._failed, self._left = True, False, False
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._wanted: _WantedReport | None = None
        #: Uuids of the claims that have ended since the last report.
        self._ended = deque[str](maxlen=host_report.MAX_ENDED)
        #: Those that the last report names.
        self._taken: tuple[str, ...] = ()
        self._described: _Described | None = None
        self._instances = _SentInstances()
        #: The state of the service in the last report, and how often it has changed.
        self._service, self._number = heartbeat.state, 0
        #: The digest of the description that schedulers have got.
        self._reported = ""
        now = context.clock.monotonic()
        self._next_report, self._next_sync = now, now + self._sync_interval
        context.bus.subscribe(StatePublished, self._published)
        for event in (Granting, HypervisorLost, ServiceChanged, DuplicateChanged, Reloaded):
            context.bus.subscribe(event, self._report_soon)

    def _published(self, event: StatePublished) -> None:
        with self._lock:
            self._ended.extend(claim.uuid for change in event.changes for claim in change.ends)
        self._report_soon(event)

    def _report_soon(self, _event: Value) -> None:
        """Report what has changed. Cheap: it is called for every change of the state."""
        if not self._changed:
            self._changed = True
            self._wake()

    def ask(self, description: bool, instances: bool) -> None:
        """Report after a random time, because a scheduler asks for it.

        :param description: also the description. :param instances: also the list of instances.
        """
        jitter = self._context.settings.current.scheduler.report_jitter
        due = self._context.clock.monotonic() + random.uniform(0, jitter)  # noqa: S311  a delay
        with self._lock:
            before = self._wanted or _WantedReport(due=due, description=False, instances=False)
            self._wanted = _WantedReport(
                due=min(before.due, due),
                description=before.description or description,
                instances=before.instances or instances,
            )
        self._wake()

    def turn(self) -> Rest:
        """Send what is due, and return when more is."""
        with self._sending:
            return Rest() if self._left else self._send_due()

    def leave(self, timeout: float) -> None:
        """Report that this agent grants no more claims, and then nothing more.

        Nothing is sent if the last report was dropped, or if another one is being sent for
        `timeout` seconds: a stop does not wait for a broker that is away.
        """
        if not self._sending.acquire(timeout=timeout):
            return
        try:
            self._left, state = True, self._tracker.snapshot()
            if state.topology is not None and not self._failed:
                report = self._report(state, self._describe(state).digest, STOPPING)
                with contextlib.suppress(CastFailed):
                    self._send([casts.host_state(report)])
        finally:
            self._sending.release()

    # -- what is sent -----------------------------------------------------------------------------

    def _send_due(self) -> Rest:
        now = self._context.clock.monotonic()
        wanted = self._take_wanted(now)
        changed, self._changed = self._changed, False
        state = self._tracker.snapshot()
        if state.topology is None or not (changed or wanted or now >= self._next):
            return self._rest(now)
        try:
            self._send(self._casts(state, wanted, now))
        except CastFailed as error:
            self._drop(error)
            return every(RETRY_INTERVAL)
        self._failed = False
        self._reporter.counted("host_reports", SENT)
        self._next_report = now + self._context.settings.current.default.report_interval
        return self._rest(now)

    def _casts(
        self, state: NodeState, wanted: _WantedReport | None, now: float
    ) -> list[CastMessage]:
        """Return the messages of a turn. The report comes last, because it has the number of the
        last message about instances.
        """
        whole, digest = wanted is not None and wanted.instances, now >= self._next_sync
        if digest:
            self._next_sync = now + self._sync_interval
        messages = list(self._instances.casts(state, whole=whole, digest=digest))
        described = self._describe(state)
        beyond = *described.beyond, *host_report.beyond_instances(self._instances.count)
        why = f"schedulers set this host aside, because it {', '.join(beyond)}" if beyond else ""
        self._reporter.health(PART, "warn" if beyond else "pass", why)
        closed = self._admission.why_closed
        why_not = "" if closed is None else closed.message
        report = self._report(state, described.digest, why_not)
        report = replace(report, ended=self._take_ended())
        if described.digest != self._reported or (wanted is not None and wanted.description):
            report = replace(report, description=described.description)
            self._reported = described.digest
        return [*messages, casts.host_state(report)]

    def _report(self, state: NodeState, digest: str, why_not: str) -> host_report.HostReport:
        service, before = self._heartbeat.state, self._service
        settings = self._context.settings.current
        self._service, self._number = service, self._number + (service != before)
        return report_of(
            state,
            digest,
            service=service,
            why_not=why_not,
            metrics=self._metrics(),
            instances_digest=self._instances.digest,
            instances_revision=self._instances.number,
            number=self._number,
            page_url=page_url(settings.api, settings.default.my_ip),
        )

    def _describe(self, state: NodeState) -> _Described:
        """Return the description. It is made anew only if one of its parts was replaced."""
        unlisted = self._tracker.creation.unlisted
        parts = (state.topology, state.policy, state.devices, state.resource_inventories, unlisted)
        known = self._described
        if known is None or any(a is not b for a, b in zip(known.parts, parts, strict=True)):
            if unlisted is not None:
                state = without_devices(state, unlisted.message)
            description = description_of(state)
            known = _Described(
                parts=parts,
                description=description,
                digest=digest_of(description),
                beyond=tuple(sentence for _, sentence in host_report.beyond_bounds(description)),
            )
            self._described = known
        return known

    def _drop(self, error: CastFailed) -> None:
        """Make the next messages complete."""
        self._reporter.counted("host_reports", DROPPED)
        self._reporter.log("warning", f"schedulers did not get a report: {error}")
        self._changed, self._failed, self._reported = True, True, ""
        self._instances.forget()
        with self._lock:
            self._ended.extendleft(reversed(self._taken))

    # -- when -------------------------------------------------------------------------------------

    def _take_wanted(self, now: float) -> _WantedReport | None:
        with self._lock:
            wanted = self._wanted
            if wanted is None or wanted.due > now:
                return None
            self._wanted = None
            return wanted

    def _take_ended(self) -> tuple[str, ...]:
        with self._lock:
            self._taken = tuple(self._ended)
            self._ended.clear()
            return self._taken

    @property
    def _next(self) -> float:
        return min(self._next_report, self._next_sync)

    @property
    def _sync_interval(self) -> float:
        return self._context.settings.current.scheduler.instance_sync_interval

    def _rest(self, now: float) -> Rest:
        with self._lock:
            due = self._wanted.due if self._wanted is not None else self._next
        shortest = self._context.settings.current.scheduler.host_report_interval
        return Rest(at_least=shortest, at_most=max(shortest, min(due, self._next) - now))


class _SentInstances:
    """The instances as schedulers have got them, if no message was lost.

    :ivar number: of the last message in the epoch.
    """

    def __init__(self) -> None:
        self.number = 0
        self._epoch = -1
        self._sent: Mapping[str, host_report.InstanceInfo] | None = None

    @property
    def digest(self) -> str:
        """The digest of all instances."""
        return instances_digest(self._sent or ())

    @property
    def count(self) -> int:
        """The number of all instances."""
        return len(self._sent or ())

    def forget(self) -> None:
        """Send the whole list with the next messages."""
        self._sent = None

    def casts(self, state: NodeState, *, whole: bool, digest: bool) -> Iterator[CastMessage]:
        """Yield the messages that lead from what was sent to this state.

        :param whole: the list is wanted. :param digest: its digest is due.
        """
        if state.epoch != self._epoch:  # schedulers expect its messages from the first number on
            self._epoch, self.number, self._sent = state.epoch, 0, None
        before, now = self._sent, instances_of(state, self._sent)
        self._sent = now
        left = () if before is None else [uuid for uuid in before if uuid not in now]
        if whole or before is None or len(left) > MAX_REMOVED:
            yield casts.whole_list(self._next(state), tuple(now.values()))
            return
        for uuid in left:
            yield casts.removed_instance(self._next(state), uuid)
        changed = tuple(info for info in now.values() if _differs(info, before.get(info.uuid)))
        if changed:
            yield casts.changed_instances(self._next(state), changed)
        if digest:
            yield casts.list_digest(self._next(state), now)

    def _next(self, state: NodeState) -> Numbered:
        self.number += 1
        node = state.node
        return Numbered(
            host=node.host, node_uuid=node.uuid, epoch=self._epoch, revision=self.number
        )


def _differs(info: host_report.InstanceInfo, before: host_report.InstanceInfo | None) -> bool:
    return info is not before and info != before
