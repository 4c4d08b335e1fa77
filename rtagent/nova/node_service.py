"""NodeService: what an operator sees of a node, and the threads that serve it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from oslo_log import log

from rtagent.api.address import parse
from rtagent.api.guard import Guard
from rtagent.api.routes import NO_AUDIT, Sources
from rtagent.api.server import ReadAPI
from rtagent.audit import AuditEnded
from rtagent.bus import Bus, CallRefused, StatePublished
from rtagent.capacity.count import Counts
from rtagent.conf.flavors_file import read_flavors
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.embedded import SystemClock
from rtagent.errors import ConfigError, RtAgentError, StoreUnavailable
from rtagent.nova.holds import idle_instances
from rtagent.nova.live_domains import PART, DomainAudits, uri_of
from rtagent.nova.node_tracker import CONF
from rtagent.nova.nova_node import NovaNode
from rtagent.nova.releases import has_native_threads
from rtagent.nova.tracker import ResourceTracker
from rtagent.ports import Hypervisor
from rtagent.rpc.serving import InFlight
from rtagent.service.context import NodeContext
from rtagent.service.events import EventTurns
from rtagent.service.housekeeping import Housekeeping
from rtagent.service.loop import Loop, Rest
from rtagent.service.page_sources import page_sources
from rtagent.service.process import RunningParts, measure_process
from rtagent.telemetry.claim_log import ClaimLog
from rtagent.telemetry.telemetry import Telemetry
from rtagent.virt.libvirt.hypervisor import LibvirtHypervisor

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
        context = NodeContext(
            settings=SettingsHolder(settings),
            clock=clock,
            reporter=telemetry.named(__name__),
            bus=tracker.bus,
        )
        self._clock, self._claim_log = clock, ClaimLog(telemetry)
        self._turns = turns = Loop("claim-records", None, clock, telemetry)
        self._events = EventTurns(
            context,
            node.stored.events,
            tracker,
            settings.events.kept,
            congested=lambda: False,
            wake=turns.waker("claim-events"),
        )
        turns.add("claim-log", self._write_log)
        turns.add("claim-events", self._events.turn)
        turns.add("claim-purge", Housekeeping(context, node.stored.store, tracker).turn)
        self._domains = Loop("domains", None, clock, telemetry)
        self._audits: DomainAudits | None = None
        if libvirt is not None:
            self._audits = DomainAudits(context, node.embedded, libvirt, self._idle)
            self._domains.add("domains", self._audits.turn)
        self._parts = RunningParts(telemetry)
        self._listen(tracker.bus)

    def _listen(self, bus: Bus) -> None:
        """Record what happens in the log of claims, and on the page."""
        timeline, wake = self._telemetry.timeline, self._turns.waker("claim-log")
        bus.subscribe(StatePublished, lambda event: self._claim_log.add(event.changes) and wake())
        bus.subscribe(StatePublished, lambda event: timeline.changed(event.changes))
        bus.subscribe(CallRefused, lambda event: timeline.refused(event.reasons))
        # Audits of the host, which are Nova's, are many and say nothing of guests.
        bus.subscribe(
            AuditEnded,
            lambda event: timeline.audited(event.summary) if event.part == PART else None,
        )

    def start(self) -> None:
        """Start the threads and the read API. An address that cannot be used is logged, because
        Nova's guests do not depend on it.
        """
        measure_process(
            self._telemetry.metrics, SERVICE, InFlight(self._clock), self._node.stored.sql_errors
        )
        if self._audits is not None and self._libvirt is not None:
            self._libvirt.start(self._noticed)
            self._parts.callback(self._libvirt.stop)
        self._telemetry.health("store", "pass")
        for loop in (self._turns, self._domains):
            if loop.turns:
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
            devices_error=lambda: tracker.creation.unlisted,
            counts=self._counts(),
            more=more,
        )

    def _counts(self) -> Counts:
        """Return the counts of the flavors of claims, and of the operator's file as far as it has
        no mistake.
        """
        flavors, mistakes = read_flavors(self._settings.capacity.flavors_file)
        for mistake in mistakes:
            self._telemetry.named(__name__).log("error", f"a flavor is left out: {mistake}")
        return Counts(lambda: flavors)

    def _creation_error(self) -> RtAgentError | None:
        tracker = self._node.embedded.tracker
        if tracker.stale:
            return StoreUnavailable("the database of this host does not answer")
        return tracker.fault or tracker.creation.unobserved

    def _idle(self, uuids: Collection[str]) -> set[str]:
        node = self._node.state.node
        return idle_instances(uuids, node.host, node.hypervisor_hostname)

    def _noticed(self, event: str) -> None:
        """React to an event of libvirt's."""
        if self._audits is not None:
            self._audits.add_cause(event)
            self._domains.wake()

    def _write_log(self) -> Rest:
        self._claim_log.write()
        return Rest(at_least=GATHER)


LOG = log.getLogger(__name__)


class ServedTracker(ResourceTracker):
    """Serves the node that the service opens first. Drivers of libvirt have no other one."""

    def __init__(self, host: str, driver: Any, reportclient: Any = None) -> None:
        super().__init__(host, driver, reportclient)
        self._served: tuple[str, NodeService] | None = None

    def remove_node(self, nodename: str) -> None:
        if self._served is not None and self._served[0] == nodename:
            self._served[1].close()
            self._served = None
        super().remove_node(nodename)

    def _open_node(self, compute_node: Any, settings: Settings) -> NovaNode:
        telemetry = Telemetry(SystemClock())
        node = NovaNode(compute_node, settings, telemetry)
        if self._served is None:
            libvirt = _comparable_libvirt(settings, telemetry, node)
            service = NodeService(node, settings, telemetry, libvirt)
            service.start()
            self._served = compute_node.hypervisor_hostname, service
        return node


def _comparable_libvirt(
    settings: Settings, telemetry: Telemetry, node: NovaNode
) -> LibvirtHypervisor | None:
    """Return the libvirt whose domains are compared with the claims; None: they are not."""
    if not has_native_threads():
        # A call of libvirt's would stop all greenlets.
        LOG.warning("Without native threads, claims are not compared with libvirt's domains")
        return None
    uri = uri_of(CONF)
    if uri is None:
        return None
    return LibvirtHypervisor(
        uri,
        CONF.instances_path,
        call_timeout=settings.libvirt.call_timeout,
        reporter=telemetry,
        pmem=node,
    )
