"""NodeService: what an operator sees of a node, and the threads that serve it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rtagent.api.address import parse
from rtagent.api.guard import Guard
from rtagent.api.routes import NO_AUDIT, Sources
from rtagent.api.server import ReadAPI
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.embedded import SystemClock
from rtagent.errors import ConfigError, RtAgentError, StoreUnavailable
from rtagent.model.change import Change
from rtagent.model.node_state import NodeState
from rtagent.nova.domain_audits import DomainAudits
from rtagent.nova.nova_node import NovaNode
from rtagent.ports import Hypervisor
from rtagent.rpc.in_flight import InFlight
from rtagent.service.context import PartContext
from rtagent.service.events import Events
from rtagent.service.housekeeping import Housekeeping
from rtagent.service.loop import Loop, Rest
from rtagent.service.page_sources import page_sources
from rtagent.service.process import Parts
from rtagent.service.process_gauges import measure_process
from rtagent.telemetry.claim_log import ClaimLog
from rtagent.telemetry.telemetry import Telemetry

#: The name of the process in the metrics.
SERVICE = "nova-compute"
#: Seconds for which steps of claims are collected, so that many share a log line.
GATHER = 0.1


class NodeService:
    """The read API with the page and the metrics, the log of claims, the audits of libvirt's
    domains, and the purge of old records. Nova's own threads make the claims.
    """

    def __init__(
        self, node: NovaNode, settings: Settings, telemetry: Telemetry, libvirt: Hypervisor | None
    ) -> None:
        """Nothing is started yet.

        :param libvirt: None: the driver is another one, and domains are not observed.
        """
        self._node, self._settings, self._telemetry = node, settings, telemetry
        self._libvirt = libvirt
        clock, tracker = SystemClock(), node.embedded.tracker
        context = PartContext(
            settings=SettingsHolder(settings), clock=clock, reporter=telemetry.named(__name__)
        )
        self._clock = clock
        self._claim_log = ClaimLog(telemetry)
        self._events = Events(
            context, node.stored.events, tracker, settings.events.kept, congested=lambda: False
        )
        purge = Housekeeping(context, node.stored.store, tracker)
        turns: dict[str, Callable[[], Rest]] = {
            "claim-log": self._write_log,
            "claim-events": self._events.turn,
            "claim-purge": purge.turn,
        }
        self._audits = None if libvirt is None else DomainAudits(context, node.embedded, libvirt)
        if self._audits is not None:
            turns["domains"] = self._audits.turn
        self._loops = {name: Loop(name, turn, clock, telemetry) for name, turn in turns.items()}
        self._parts = Parts(telemetry)

    def start(self) -> None:
        """Start the threads and the read API. An address that cannot be used is logged, because
        Nova's guests do not depend on it.
        """
        tracker, loops = self._node.embedded.tracker, self._loops
        self._events.attach(loops["claim-events"].wake, _nothing)
        tracker.listen(self._published)
        tracker.listen_refusals(lambda _, reasons: self._telemetry.timeline.refused(reasons))
        measure_process(
            self._telemetry.metrics,
            SERVICE,
            InFlight(self._clock),
            self._node.stored.sql_errors,
        )
        if self._audits is not None and self._libvirt is not None:
            self._audits.auditor.listen(self._telemetry.timeline.audited)
            self._libvirt.start(self._noticed)
            self._parts.callback(self._libvirt.stop)
        self._telemetry.health("store", "pass")
        for loop in loops.values():
            self._parts.start_loop(loop)
        try:
            address = parse(self._settings.api.address)
            guard = Guard(address, self._settings.api)
            api = ReadAPI(address, self._sources(), self._telemetry, guard=guard)
            self._parts.start_read_api(api, "api", "address")
        except ConfigError as error:
            self._telemetry.named(__name__).log("error", f"there is no read API: {error}")

    def close(self) -> None:
        """Stop what was started."""
        self._parts.stop()
        self._claim_log.write()

    def _sources(self) -> Sources:
        node, tracker = self._node.embedded, self._node.embedded.tracker
        more = page_sources(
            node,
            self._node.stored.store,
            self._libvirt or self._node.host,
            self._telemetry.timeline.view,
            self._clock,
        )
        return Sources(
            snapshot=tracker.snapshot,
            stale=lambda: tracker.stale,
            checks=self._telemetry.checks,
            creation_error=self._creation_error,
            registry=self._telemetry.metrics.registry,
            allocations=lambda: NO_AUDIT,
            events=self._events.tail,
            more=more,
        )

    def _creation_error(self) -> RtAgentError | None:
        tracker = self._node.embedded.tracker
        if tracker.stale:
            return StoreUnavailable("the database of this host does not answer")
        return tracker.fault or tracker.unobserved

    def _noticed(self, event: str) -> None:
        """React to an event of libvirt's."""
        if self._audits is not None:
            self._audits.add_cause(event)
            self._loops["domains"].wake()

    def _published(self, state: NodeState, changes: Sequence[Change]) -> None:
        """React to a published change of the state."""
        self._telemetry.timeline.changed(changes)
        if self._claim_log.add(changes):
            self._loops["claim-log"].wake()
        if self._events.tail.wanted:
            self._loops["claim-events"].wake()

    def _write_log(self) -> Rest:
        self._claim_log.write()
        return Rest(at_least=GATHER)


def _nothing() -> None:
    """Do nothing: events are read here, and not published."""
