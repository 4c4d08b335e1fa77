"""AllocationAudits: when allocations in Placement are compared with the claims."""

import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

from rtagent.api.routes import NO_AUDIT
from rtagent.bus import StatePublished
from rtagent.embedded import EmbeddedNode
from rtagent.errors import PlacementError, Unavailable
from rtagent.model.claim import ACTIVE
from rtagent.model.health import Status
from rtagent.placement.allocation_audit import AllocationVerdict
from rtagent.placement.allocation_auditor import AllocationAuditor, AuditReport, NodeView
from rtagent.placement.client import HttpPlacement, use_request_id
from rtagent.placement.schedule import AuditPlan
from rtagent.ports import Store
from rtagent.service.context import NodeContext
from rtagent.service.loop import Backoff, Rest, every
from rtagent.service.publisher import Publisher
from rtagent.telemetry.metrics import Metrics

#: The part's name in health.
PART = "allocations"
#: The gauges, and what they count.
GAUGES = {
    "allocations_unknown": AllocationVerdict.UNKNOWN,
    "allocations_ended": AllocationVerdict.ENDED,
    "allocations_different": AllocationVerdict.DIFFERENT,
}
#: Seconds between two looks at whether the first round of the mirror has ended.
FIRST_LOOK = 1.0
#: The longest pause after an audit that failed, in seconds.
LAST_RETRY = 300.0
#: Seconds after a change of the policy until its devices are published.
PUBLISHED = 20.0
#: Seconds for which changes of devices are gathered.
GATHER = 2.0


class AllocationAudits:
    """Audits, and looks at devices whose allocations may be missing. The turns are a thread's."""

    def __init__(
        self,
        context: NodeContext,
        api: HttpPlacement,
        node: EmbeddedNode,
        store: Store,
        publisher: Publisher,
        wake: Callable[[], None],
        give_way: Callable[[], None],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """:param wake: wakes the thread. :param give_way: see `AllocationAuditor`.
        :param jitter: returns a number from 0 to 1, called for each time until an audit.
        """
        self._context, self._node, self._publisher = context, node, publisher
        self._jitter, self._wake = jitter, wake
        self._reporter = context.reporter.named(__name__)
        self._backoff = Backoff(last=LAST_RETRY)
        self._plan = AuditPlan()
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._report: AuditReport | None = None
        self._auditor = self._make(api, store, give_way)
        context.bus.subscribe(StatePublished, self._published)

    def _published(self, event: StatePublished) -> None:
        """Note the owners whose devices may lack their allocations now, and changes of the policy,
        by which other devices may be published.
        """
        owners = {
            claim.owner_id
            for change in event.changes
            for claim in change.puts
            if claim.state == ACTIVE and (claim.pci or claim.resources)
        }
        policy = self._report is not None and any(change.policy for change in event.changes)
        if owners or policy:
            with self._lock:
                self._changed |= owners
                if policy:
                    published = self._context.clock.monotonic() + PUBLISHED
                    self._plan = self._plan.request(published)
            self._wake()

    def turn(self) -> Rest:
        """Audit if that is due, else look at the owners whose devices have changed."""
        if not self._publisher.first_round_ended:
            return every(FIRST_LOOK)
        with self._lock:
            owners, self._changed = self._changed, set()
        use_request_id("")
        try:
            if self._context.clock.monotonic() >= self._plan.due(self._interval):
                self._audit()
            elif owners:
                self._auditor.heal(owners)
        except (PlacementError, Unavailable) as error:
            with self._lock:
                self._changed |= owners
            output = f"the allocations in Placement cannot be compared: {error.message}"
            self._reporter.health(PART, Status.WARN, output)
            return every(self._backoff.pause())
        self._backoff.reset()
        if self._report is not None:
            self._report_health(self._report)
        left = self._plan.due(self._interval) - self._context.clock.monotonic()
        return Rest(at_least=GATHER, at_most=max(GATHER, left))

    def document(self) -> Mapping[str, Any]:
        """Return the last report, for the read API."""
        if (report := self._report) is None:
            return NO_AUDIT
        seen = self._auditor.history.by_consumer
        allocations = [
            {
                "consumer_uuid": each.consumer.uuid,
                "verdict": each.verdict,
                "reason": each.reason,
                "instance_uuid": each.instance_uuid,
                "parts": each.consumer.parts,
                "since": seen[each.consumer.uuid].at if each.consumer.uuid in seen else report.at,
            }
            for each in report.settled
        ]
        counts = {verdict: report.counts.get(verdict, 0) for verdict in AllocationVerdict}
        return {
            "at": report.at,
            "counts": counts,
            "allocations": allocations,
            "problems": report.problems,
        }

    def measure(self, metrics: Metrics) -> None:
        """Register the gauges."""
        for name, verdict in GAUGES.items():
            what = f"Consumers whose allocations on this node are {verdict}"
            metrics.gauge(name, what, self._counter(verdict))

    def _counter(self, verdict: AllocationVerdict) -> Callable[[], float]:
        return lambda: self._report.settled_count(verdict) if self._report else 0

    @property
    def _interval(self) -> float:
        return self._context.settings.current.placement.allocation_audit_interval

    def _audit(self) -> None:
        began = self._context.clock.monotonic()
        report = self._auditor.run()
        self._publisher.note_unclaimed(report.unclaimed)
        with self._lock:
            self._plan = self._plan.after(began, report.recheck, self._interval, self._jitter())
        self._report = report

    def _report_health(self, report: AuditReport) -> None:
        unknown, ended, different = map(report.settled_count, GAUGES.values())
        parts = []
        if unknown or ended:
            count = f"consumers with allocations on this node and no claim: {unknown + ended}"
            parts.append(f"{count} (rtagent placement orphans lists them)")
        if different:
            parts.append(f"consumers with other allocations than their claims: {different}")
        if report.problems:
            parts.append(f"not corrected: {len(report.problems)}: {report.problems[0]}")
        self._reporter.health(PART, Status.WARN if parts else Status.PASS, "; ".join(parts))

    def _make(
        self, api: HttpPlacement, store: Store, give_way: Callable[[], None]
    ) -> AllocationAuditor:
        tracker = self._node.tracker
        view = NodeView(
            state=tracker.snapshot,
            tree=self._publisher.wanted,
            ended=lambda owners: store.ended(tracker.snapshot().node.uuid, owners),
            trusted=lambda: self._publisher.claims_complete and not tracker.stale,
            term=lambda: self._context.settings.current.claims.claim_expiry_time,
        )
        return AllocationAuditor(
            api,
            view,
            self._context.clock,
            self._context.reporter,
            enqueue=tracker.unwritten.add,
            republish=self._publisher.mirror.forget,
            give_way=give_way,
        )
