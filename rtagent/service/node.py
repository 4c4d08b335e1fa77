"""NodeAgent: create the parts that serve one node, and connect their reactions to each other's
events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import rtagent
from rtagent.api.routes import Sources
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.embedded import open_node
from rtagent.errors import DuplicateHost, HypervisorUnavailable, RtAgentError
from rtagent.identity.node_identity import HostNodeIdentity
from rtagent.model.change import Change
from rtagent.model.node_state import NodeState
from rtagent.ports import Clock
from rtagent.reconcile.drift import orphans
from rtagent.rpc.duplicates import Duplicates, agent_identity
from rtagent.rpc.endpoint import Endpoint, PlacementCalls
from rtagent.rpc.in_flight import InFlight
from rtagent.rpc.topics import AGENT
from rtagent.rpc.trust.access import Access
from rtagent.rpc.trust.credentials import reload_credentials
from rtagent.service import node_sections
from rtagent.service.admission import Admission
from rtagent.service.announced import AuditEvents, of_metrics, of_refusal
from rtagent.service.assembly import Adapters
from rtagent.service.audits import Audits
from rtagent.service.build_failures import BuildFailures
from rtagent.service.context import NodeContext
from rtagent.service.draining import Draining
from rtagent.service.events import Events
from rtagent.service.heartbeat import Heartbeat
from rtagent.service.host_checks import HostChecks
from rtagent.service.host_reports import HostReports
from rtagent.service.housekeeping import Housekeeping
from rtagent.service.loop import Loop, Rest
from rtagent.service.main_thread import READY, EventQueue
from rtagent.service.monitors import Monitors
from rtagent.service.node_gauges import measure_node
from rtagent.service.notifications import Notifications
from rtagent.service.page_sources import page_sources
from rtagent.service.placement import NoPlacement, Placement
from rtagent.service.power import Power
from rtagent.service.process_gauges import measure_process
from rtagent.service.provider_file_checks import ProviderFileChecks
from rtagent.service.recovery import Recovery
from rtagent.service.state_report import StateReport
from rtagent.service.trust import authentication
from rtagent.telemetry.claim_log import ClaimLog
from rtagent.telemetry.telemetry import Telemetry
from rtagent.virt.libvirt import guest

#: The threads whose progress the watchdog checks.
VITAL = ("audit", "heartbeat", "recovery")
#: Seconds for which steps of claims are collected, so that many share a log line.
GATHER = 0.1
#: The time-out in seconds for the thread that reports to end.
REPORT_PATIENCE = 5.0


class NodeAgent:
    """The parts of one node's agent, and the `NodeEvents` that they report.

    :ivar in_flight: the RPC calls that are being served.
    :ivar duplicates: whether another agent serves this host name.
    :ivar placement: what it does in Placement. :ivar monitors: measures the host.
    """

    def __init__(
        self,
        adapters: Adapters,
        identity: HostNodeIdentity,
        settings: SettingsHolder,
        telemetry: Telemetry,
        clock: Clock,
        queue: EventQueue,
    ) -> None:
        """Become the node's writer and build the parts; no thread is started yet.

        :param identity: has the locks of the host.
        :param queue: gets `READY`, and the errors that must end the process.
        :raises IdentityError: StoreUnavailable: see `open_node`.
        """
        self._sources: Sources  # set by `sources`
        self._adapters, self._telemetry, self._clock = adapters, telemetry, clock
        self._queue = queue
        context = NodeContext(settings=settings, clock=clock, reporter=telemetry, events=self)
        power = self._power = Power(context, adapters.cpu_power)
        hypervisor, store = power.observed(adapters.hypervisor), adapters.database.store
        node = self._node = open_node(
            settings.current, hypervisor, store, clock, identity=identity, reporter=telemetry
        )
        power.attach(node.tracker.snapshot)
        self._admission = Admission(node.tracker)
        self._checks = HostChecks(context, node)
        self._file_checks = ProviderFileChecks(context, node)
        checks = (self._checks, self._file_checks)
        self._audits = Audits(context, node, hypervisor, identity, self._admission, checks)
        self._make_parts(context)
        self._loops = self._make_loops(context)
        self._listen()
        self._measure()

    def _make_parts(self, context: NodeContext) -> None:
        """Build the parts that need the node."""
        adapters, node, telemetry = self._adapters, self._node, self._telemetry
        database = adapters.database
        self._heartbeat = Heartbeat(context, database.registry, node.tracker, database.faults)
        self._build_failures = BuildFailures(context, self._heartbeat, node.node.host)
        self.placement = self._make_placement(context)
        self.monitors = Monitors(
            context, adapters.hypervisor, node.tracker.snapshot, database.write_metrics
        )
        self._host_reports = self._make_host_reports(context)
        self._make_event_parts(context)
        self._recovery = Recovery(context, node)
        self._claim_log = ClaimLog(telemetry)
        self._draining = Draining(node.tracker.snapshot, self._clock, telemetry)
        self.in_flight = InFlight(self._clock)
        self._authentication = authentication(AGENT, context.settings, self._clock, telemetry)
        me = agent_identity(node.node, context.settings.current.default.state_path)
        self.duplicates = Duplicates(me, node.node.host, self._clock, self._duplicated)

    def _listen(self) -> None:
        node, telemetry = self._node, self._telemetry
        node.tracker.listen(self._published)
        node.tracker.listen(self._draining.listener)
        node.tracker.listen(self._build_failures.listener)
        node.tracker.listen_refusals(lambda _, reasons: telemetry.timeline.refused(reasons))
        node.auditor.listen(telemetry.timeline.audited)

    def _make_host_reports(self, context: NodeContext) -> HostReports:
        """Build the part that reports to the schedulers."""
        return HostReports(
            context,
            self._node,
            self._admission,
            self._heartbeat,
            self._adapters.schedulers.send,
            self.monitors.current,
        )

    def _make_placement(self, context: NodeContext) -> Placement | NoPlacement:
        api, store = self._adapters.placement, self._adapters.database.store
        if api is None:
            return NoPlacement()
        return Placement(context, api, self._node, store, self._admission, self._heartbeat)

    def _make_event_parts(self, context: NodeContext) -> None:
        """Build the parts that publish events, and that show them."""
        adapters, tracker = self._adapters, self._node.tracker
        log, kept = adapters.database.events, context.settings.current.events.kept
        notifications = self._notifications = Notifications(
            context, log, tracker, adapters.notifications, kept
        )
        self._events = Events(context, log, tracker, kept, lambda: notifications.congested)
        announce = tracker.announcements.add
        tracker.listen_refusals(lambda call, reasons: announce(of_refusal(call, reasons)))
        self._node.auditor.listen(AuditEvents(announce).listener)
        self.monitors.listen(lambda metrics: announce(of_metrics(metrics)))

    def _make_loops(self, context: NodeContext) -> dict[str, Loop]:
        """Create the threads, by name, in the order in which they start."""
        tracker, store = self._node.tracker, self._adapters.database.store
        turns = {
            "heartbeat": self._build_failures.beat,
            "recovery": self._recovery.turn,
            "housekeeping": Housekeeping(context, store, tracker).turn,
            "log": self._write_log,
            "power": self._power.turn,
            "audit": self._audits.turn,
            "monitors": self.monitors.turn,
            "host-reports": self._host_reports.turn,
            "events": self._events.turn,
            "notifications": self._notifications.turn,
        }
        loops = {
            name: Loop(name, turn, context.clock, context.reporter) for name, turn in turns.items()
        }
        self._recovery.attach(loops["recovery"].wake)
        self._host_reports.attach(loops["host-reports"].wake)
        self._build_failures.attach(loops["heartbeat"].wake)
        self._events.attach(loops["events"].wake, loops["notifications"].wake)
        return loops

    # -- for the process --------------------------------------------------------------------------

    @property
    def loops(self) -> Sequence[Loop]:
        """Every thread but that of Placement, in the order in which they start."""
        return tuple(self._loops.values())

    @property
    def vital_loops(self) -> Sequence[Loop]:
        """The threads whose progress the watchdog checks."""
        return [self._loops[name] for name in VITAL]

    def watch(self) -> None:
        """Start audits on the hypervisor's events from now on."""
        self._adapters.hypervisor.start(self._noticed)

    def endpoint(self, access: Access) -> Endpoint:
        """Return the endpoint that the RPC server serves."""
        return Endpoint(
            self._node.tracker,
            self._node.auditor,
            self._heartbeat,
            self._clock,
            self._telemetry,
            rtagent.__version__,
            self.in_flight,
            guest,
            PlacementCalls(
                sync=self.placement.sync,
                delete_allocation=self.placement.delete,
                confirm=self.placement.confirm,
            ),
            self._power.settle,
            self.duplicates,
            self._host_reports.ask,
            self._sources.answer,
            self.monitors.current,
            self._authentication,
            access,
        )

    def sources(self, hung: Callable[[], Sequence[str]]) -> Sources:
        """Return the sources of the read API. :param hung: the vital threads that hang."""
        self._sources = Sources(
            snapshot=self._node.tracker.snapshot,
            stale=lambda: self._node.tracker.stale,
            checks=self._telemetry.checks,
            creation_error=lambda: self._admission.why_closed,
            registry=self._telemetry.metrics.registry,
            allocations=self.placement.document,
            events=self._events.tail,
            measured=self.monitors.current,
            hung=hung,
            awaited=lambda: self._node.auditor.awaited,
            more=page_sources(
                self._node,
                self._adapters.database.store,
                self._adapters.hypervisor,
                self._telemetry.timeline.view,
                self._clock,
            ),
        )
        return self._sources

    def add_sections(self, report: StateReport) -> None:
        """Add what the state report shows of the node."""
        tracker, timeline = self._node.tracker, self._telemetry.timeline
        report.add("Status", lambda: [self.status()])
        report.add("Claims", lambda: node_sections.claims(tracker))
        loops = [*self.loops, *self.placement.loops]
        report.add("Lock and queues", lambda: node_sections.queues(tracker, self.in_flight, loops))
        report.add("Outboxes", lambda: node_sections.outboxes(tracker, self.placement))
        report.add("Last audits", lambda: node_sections.audits(timeline))

    def status(self) -> str:
        """Return the status in one sentence, for ``systemctl status``."""
        state, why = self._node.state, self._admission.why_closed
        doing = "granting" if why is None else f"not granting ({why.message})"
        return f"{doing}; {len(state.claims)} claims on {state.node.hypervisor_hostname}"

    def check(self, settings: Settings) -> None:
        """Check whether these settings fit this host.

        :raises ConfigError: they do not. :raises ExceptionGroup: of `ConfigError`.
        """
        self._checks.check(self._node.policy_from(settings))
        self._file_checks.check(settings)

    def reload(self) -> None:
        """React to new settings, which are already in force."""
        self._authentication.reload()
        reload_credentials()
        for name in ("heartbeat", "recovery", "power", "monitors"):
            self._loops[name].wake()
        self._host_reports.changed()
        self._audit("reload")
        self.placement.reload()

    def log_orphans(self) -> None:
        """Log every domain that has no claim, for a database that was begun anew."""
        for usage in orphans(self._node.state):
            self._telemetry.named(__name__).log(
                "warning",
                f"orphan {usage.domain_uuid} {usage.name!r}: {usage.vcpus} vCPUs,"
                f" {usage.memory_mb} MB; it is counted, and has no claim"
                + "".join(f"; its {kind} are unknown" for kind in sorted(usage.occupancy.unknown)),
            )

    def leave(self) -> None:
        """Report to the schedulers that this agent grants no more claims."""
        if self._loops["host-reports"].stop(REPORT_PATIENCE):
            self._host_reports.leave()

    def write_log(self) -> None:
        """Log every step of a claim's life that is not logged yet."""
        self._claim_log.write()

    # -- NodeEvents -------------------------------------------------------------------------------

    def ready(self) -> None:
        self._power.begin()
        self._loops["power"].wake()
        self._queue.put(READY)
        self.placement.wake()
        self._host_reports.changed()

    def lost(self) -> None:
        self.placement.wake()
        self._host_reports.changed()

    def returned(self) -> None:
        self._node.tracker.restart_leases()
        self._audit("store")

    def policy_changed(self) -> None:
        self._audit("policy")

    def service_changed(self) -> None:
        self._admission.forced_down(self._heartbeat.why_forced_down)
        self.placement.wake()
        self._host_reports.changed()

    def fatal(self, error: RtAgentError) -> None:
        self._queue.put(error)

    # -- other reactions --------------------------------------------------------------------------

    def _duplicated(self, error: DuplicateHost | None) -> None:
        """React to another agent with this host name, or to its end (None)."""
        self._admission.duplicated(error)
        self.placement.wake()
        self._host_reports.changed()

    def _noticed(self, event: str) -> None:
        """React to an event of the hypervisor. A lost connection closes the admission at once."""
        if event == "connection":
            self._audits.lost(HypervisorUnavailable("the connection to it was lost"))
        self._audit(event)

    def _published(self, state: NodeState, changes: Sequence[Change]) -> None:
        """React to a published change of the state."""
        self._telemetry.timeline.changed(changes)
        if self._claim_log.add(changes):
            self._loops["log"].wake()
        self._host_reports.listener(state, changes)
        if self._notifications.on:
            self._loops["notifications"].wake()
        if self._events.tail.wanted:
            self._loops["events"].wake()
        if self._power.managed:
            self._loops["power"].wake()

    def _audit(self, cause: str) -> None:
        self._audits.add_cause(cause)
        self._loops["audit"].wake()

    def _write_log(self) -> Rest:
        self._claim_log.write()
        return Rest(at_least=GATHER)

    def _measure(self) -> None:
        metrics = self._telemetry.metrics
        self._draining.measure(metrics)
        measure_process(metrics, "rtagentd", self.in_flight, self._adapters.database.sql_errors)
        measure_node(metrics, self._node.tracker, self._audits, self.monitors, self._clock)
        self.placement.measure(metrics)
        self._notifications.measure(metrics)
