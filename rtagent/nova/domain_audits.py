"""DomainAudits: the thread that compares the claims of a node with libvirt's domains."""

from __future__ import annotations

from rtagent.audit import PERIODIC, Auditor
from rtagent.embedded import EmbeddedNode
from rtagent.errors import HypervisorUnavailable, NodeNotReady, StoreUnavailable, TrackerBusy
from rtagent.nova.live_domains import LiveDomains
from rtagent.ports import Hypervisor
from rtagent.service.context import NodeContext
from rtagent.service.loop import Backoff, Rest, every

#: The part of health that shows these audits.
PART = "domains"
#: Seconds between two audits: at least, and without an event of libvirt's.
GAP, INTERVAL = 1.0, 60.0


class DomainAudits:
    """They hold no lock of Nova's. :ivar auditor: for what it awaits."""

    def __init__(self, context: NodeContext, node: EmbeddedNode, hypervisor: Hypervisor) -> None:
        self._reporter = context.reporter.named(__name__)
        live = LiveDomains(hypervisor, node.tracker.snapshot)
        self.auditor = Auditor(node.tracker, live, context.clock, context.reporter, part=PART)
        node.tracker.creation.note_unobserved(PART, NodeNotReady())
        self._backoff = Backoff()
        self._cause = "start"

    def add_cause(self, cause: str) -> None:
        """Name what causes the next audit."""
        self._cause = cause

    def turn(self) -> Rest:
        """Run one audit."""
        cause, self._cause = self._cause, PERIODIC
        try:
            summary = self.auditor.run(cause)
        except (HypervisorUnavailable, StoreUnavailable, TrackerBusy) as error:
            self._reporter.log("warning", f"the domains are not compared: {error.message}")
            return every(self._backoff.pause())
        if not summary.good:
            return every(self._backoff.pause(summary.seconds))
        self._backoff.reset()
        pause = max(GAP, summary.seconds)
        return Rest(at_least=pause, at_most=pause if summary.skipped else max(pause, INTERVAL))
