"""NodeAgent: what runs for one node, and who reacts to what.

.. list-table:: Threads, and their turns; the most urgent one of a thread first

   * - ``audit``, ``heartbeat``, ``recovery``
     - one turn each, which waits for no other
   * - ``placement``
     - see `rtagent.service.placement`
   * - ``casts``
     - ``host-reports``, ``notifications``, ``rpc-probe``: each waits for the message broker for a
       few seconds at most
   * - ``turns``
     - ``log`` (of claims), ``events``, ``power``, ``housekeeping``, ``monitors``: what may wait for
       another

.. list-table:: Events, and who reacts to them

   * - `StatePublished`
     - the log of claims, the timeline, `DrainWatch`, `BuildFailures`, `Recovery`, `HostReports`,
       `Notifications`, `EventTurns`, `Power`, what writes to Placement
   * - `CallRefused`, `AuditEnded`
     - the timeline, `Announcer`
   * - `Measured`
     - `Announcer`
   * - `AnnouncementWaits`
     - `EventTurns`
   * - `WriterDown`
     - `Recovery`
   * - `StoreReturned`, `PolicyChanged`, `HypervisorEvent`
     - `Audits`
   * - `Granting`
     - the main thread (READY=1), `Power`, `HostReports`, `Publisher`
   * - `HypervisorLost`
     - `HostReports`, `Publisher`
   * - `ServiceChanged`
     - `Admission`, `Announcer`, `HostReports`, `Publisher`
   * - `DuplicateChanged`
     - `Admission`, `HostReports`, `Publisher`
   * - `Reloaded`
     - `Audits`, `HostReports`, `Monitors`, `Power`, `Recovery`, `Placement`, and the interval of
       heartbeats
   * - `Fatal`
     - the main thread, which ends the process
"""

from collections.abc import Callable, Sequence

import rtagent
from rtagent.api.routes import Sources
from rtagent.audit import AuditEnded
from rtagent.bus import Bus, CallRefused, StatePublished
from rtagent.capacity.count import Counts
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.embedded import open_node
from rtagent.identity.node_identity import HostNodeIdentity
from rtagent.ports import Clock
from rtagent.reconcile.drift import orphans
from rtagent.rpc.duplicates import Duplicates, agent_identity
from rtagent.rpc.methods import AGENT_API
from rtagent.rpc.served_agent import ServedAgent
from rtagent.rpc.serving import Endpoint, InFlight
from rtagent.rpc.trust.access import Access
from rtagent.rpc.trust.credentials import reload_credentials
from rtagent.service import node_report
from rtagent.service.admission import Admission
from rtagent.service.assembly import Adapters
from rtagent.service.audits import Audits
from rtagent.service.context import (
    DuplicateChanged,
    Fatal,
    Granting,
    HypervisorEvent,
    NodeContext,
    Reloaded,
)
from rtagent.service.events import Announcer, EventTurns
from rtagent.service.heartbeat import BuildFailures, Heartbeat
from rtagent.service.host_checks import HostChecks, ProviderFileChecks
from rtagent.service.host_reports import HostReports
from rtagent.service.housekeeping import Housekeeping
from rtagent.service.loop import Loop, Rest, Turn
from rtagent.service.main_thread import READY, EventQueue
from rtagent.service.monitors import Monitors
from rtagent.service.node_report import DrainWatch, measure_node
from rtagent.service.notifications import Notifications
from rtagent.service.page_sources import page_sources
from rtagent.service.placement import NoPlacement, Placement
from rtagent.service.power import Power
from rtagent.service.process import measure_process
from rtagent.service.recovery import Recovery
from rtagent.service.state_report import StateReport
from rtagent.telemetry.claim_log import ClaimLog
from rtagent.telemetry.telemetry import Telemetry
from rtagent.virt.libvirt import guest

#: The threads whose progress the watchdog checks.
VITAL = ("heartbeat", "recovery", "audit")
#: The other threads, but that of Placement.
CASTS, TURNS = "casts", "turns"
#: Seconds for which steps of claims are collected, so that many share a log line.
GATHER = 0.1
#: The time-out in seconds of the last report.
REPORT_PATIENCE = 5.0


class NodeAgent:
    """The parts of one node's agent.

    :ivar in_flight: the RPC calls that are being served.
    :ivar duplicates: whether another agent serves this host name.
    :ivar placement: what it does in Placement. :ivar monitors: measures the host.
    :ivar sources: of the read API.
    """

    def __init__(
        self,
        adapters: Adapters,
        identity: HostNodeIdentity,
        settings: SettingsHolder,
        telemetry: Telemetry,
        clock: Clock,
        queue: EventQueue,
        hung: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Become the node's writer and build the parts; no thread is started yet.

        :param identity: has the locks of the host.
        :param queue: gets `READY`, and the errors that must end the process.
        :param hung: returns the vital turns that hang.
        :raises IdentityError: StoreUnavailable: see `open_node`.
        """
        self._adapters, self._telemetry, self._clock = adapters, telemetry, clock
        self._bus = bus = Bus()
        context = NodeContext(settings=settings, clock=clock, reporter=telemetry, bus=bus)
        self._loops = {name: Loop(name, None, clock, telemetry) for name in (*VITAL, CASTS, TURNS)}
        bus.subscribe(Granting, lambda _: queue.put(READY))
        bus.subscribe(Fatal, lambda event: queue.put(event.error))
        turns, store = self._loops[TURNS], adapters.database.store
        self._power = power = Power(
            context, adapters.cpu_power, lambda: self._node.state, turns.waker("power")
        )
        hypervisor = power.observed(adapters.hypervisor)
        self._node = open_node(
            settings.current,
            hypervisor,
            store,
            clock,
            identity=identity,
            reporter=telemetry,
            bus=bus,
        )
        self._admission = Admission(self._node.tracker)
        self._checks = HostChecks(context, self._node)
        self._file_checks = ProviderFileChecks(context, self._node)
        self._audits = Audits(
            context,
            self._node,
            hypervisor,
            identity,
            self._admission,
            (self._checks.accept, self._file_checks.accept),
            self._loops["audit"].wake,
        )
        self._make_parts(context)
        self._add_turns(context)
        self.sources = self._make_sources(settings, hung)
        self._measure()

    def _make_parts(self, context: NodeContext) -> None:
        """Build the parts that need the node."""
        adapters, node, loops = self._adapters, self._node, self._loops
        database, tracker, bus = adapters.database, node.tracker, self._bus
        self._heartbeat = Heartbeat(context, database.registry, tracker, database.faults)
        self._build_failures = BuildFailures(
            context, self._heartbeat, node.node.host, loops["heartbeat"].wake
        )
        bus.subscribe(Reloaded, lambda _: loops["heartbeat"].wake())
        self.placement = self._make_placement(context)
        self.monitors = Monitors(
            context,
            adapters.hypervisor,
            tracker.snapshot,
            database.write_metrics,
            loops[TURNS].waker("monitors"),
        )
        self._host_reports = HostReports(
            context,
            node,
            self._admission,
            self._heartbeat,
            adapters.schedulers.send,
            self.monitors.current,
            loops[CASTS].waker("host-reports"),
        )
        self._make_event_parts(context)
        self._recovery = Recovery(context, node, loops["recovery"].wake)
        self._draining = DrainWatch(context, tracker.snapshot)
        self.in_flight = InFlight(self._clock)
        me = agent_identity(node.node, context.settings.current.default.state_path)
        self.duplicates = Duplicates(
            me,
            node.node.host,
            self._clock,
            lambda error: bus.publish(DuplicateChanged(error=error)),
        )

    def _make_placement(self, context: NodeContext) -> Placement | NoPlacement:
        api, store = self._adapters.placement, self._adapters.database.store
        if api is None:
            return NoPlacement()
        return Placement(context, api, self._node, store, self._admission, self._heartbeat)

    def _make_event_parts(self, context: NodeContext) -> None:
        """Build the parts that record what happens, publish it, and show it."""
        adapters, tracker, bus = self._adapters, self._node.tracker, self._bus
        log, kept = adapters.database.events, context.settings.current.events.kept
        notifications = self._notifications = Notifications(
            context,
            log,
            tracker,
            adapters.notifications,
            kept,
            self._loops[CASTS].waker("notifications"),
        )
        self._events = EventTurns(
            context,
            log,
            tracker,
            kept,
            lambda: notifications.congested,
            self._loops[TURNS].waker("events"),
        )
        Announcer(bus, tracker.announcements.add)
        self._claim_log = claims = ClaimLog(self._telemetry)
        wake, timeline = self._loops[TURNS].waker("log"), self._telemetry.timeline
        bus.subscribe(StatePublished, lambda event: claims.add(event.changes) and wake())
        bus.subscribe(StatePublished, lambda event: timeline.changed(event.changes))
        bus.subscribe(CallRefused, lambda event: timeline.refused(event.reasons))
        bus.subscribe(AuditEnded, lambda event: timeline.audited(event.summary))

    def _add_turns(self, context: NodeContext) -> None:
        tracker, store = self._node.tracker, self._adapters.database.store
        for name, turn in (
            ("audit", self._audits.turn),
            ("heartbeat", self._build_failures.beat),
            ("recovery", self._recovery.turn),
        ):
            self._loops[name].add(name, turn)
        casts, turns = self._loops[CASTS], self._loops[TURNS]
        casts.add("host-reports", self._host_reports.turn)
        casts.add("notifications", self._notifications.turn)
        turns.add("log", self.write_log)
        turns.add("events", self._events.turn)
        turns.add("power", self._power.turn)
        turns.add("housekeeping", Housekeeping(context, store, tracker).turn)
        turns.add("monitors", self.monitors.turn)

    def _make_sources(self, settings: SettingsHolder, hung: Callable[[], Sequence[str]]) -> Sources:
        """Return the sources of the read API."""
        node, database = self._node, self._adapters.database
        return Sources(
            snapshot=node.tracker.snapshot,
            stale=lambda: node.tracker.stale,
            checks=self._telemetry.checks,
            creation_error=lambda: self._admission.why_closed,
            registry=self._telemetry.metrics.registry,
            allocations=self.placement.document,
            events=self._events.tail,
            measured=self.monitors.current,
            hung=hung,
            awaited=lambda: node.auditor.awaited,
            devices_error=lambda: node.tracker.creation.unlisted,
            counts=Counts(lambda: settings.current.flavors),
            more=page_sources(
                node,
                database.store,
                self._adapters.hypervisor,
                self._telemetry.timeline.view,
                self._clock,
            ),
        )

    # -- for the process --------------------------------------------------------------------------

    @property
    def loops(self) -> Sequence[Loop]:
        """Every thread but that of Placement."""
        return tuple(self._loops.values())

    @property
    def casts(self) -> Loop:
        """The thread of the messages that no caller waits for."""
        return self._loops[CASTS]

    @property
    def vital_turns(self) -> Sequence[Turn]:
        """The turns whose progress the watchdog checks."""
        return [turn for name in VITAL for turn in self._loops[name].turns]

    def watch(self) -> None:
        """Start audits on the hypervisor's events from now on."""
        self._adapters.hypervisor.start(lambda name: self._bus.publish(HypervisorEvent(name=name)))

    def endpoint(self, access: Access) -> Endpoint:
        """Return the endpoint that the RPC server serves."""
        served = ServedAgent(
            tracker=self._node.tracker,
            auditor=self._node.auditor,
            registry=self._heartbeat,
            clock=self._clock,
            version=rtagent.__version__,
            guest=guest,
            settle=self._power.settle,
            confirm=self.placement.confirm,
            sync_placement=self.placement.sync,
            delete_allocation=self.placement.delete,
            duplicates=self.duplicates,
            report_host=self._host_reports.ask,
            document=self.sources.answer,
            metrics=self.monitors.current,
        )
        return Endpoint(
            AGENT_API,
            served,
            self.in_flight,
            self._clock,
            self._telemetry,
            access,
            check=served.check,
        )

    def add_sections(self, report: StateReport, others: Sequence[Turn]) -> None:
        """Add what the state report shows of the node. :param others: turns of the process."""
        tracker, timeline = self._node.tracker, self._telemetry.timeline
        report.add("Status", lambda: [self.status()])
        report.add("Claims", lambda: node_report.claims(tracker))
        loops = [*self.loops, *self.placement.loops]
        # Without the probe, which is one of the others and in a thread of these.
        turns = [turn for loop in loops for turn in loop.turns if turn not in others]
        report.add("Lock and queues", lambda: node_report.queues(tracker, self.in_flight, turns))
        report.add("RPC threads", lambda: node_report.delays(others))
        report.add("Outboxes", lambda: node_report.outboxes(tracker, self.placement))
        report.add("Last audits", lambda: node_report.audits(timeline))

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
        reload_credentials()
        self._bus.publish(Reloaded())

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
        self._host_reports.leave(REPORT_PATIENCE)

    def write_log(self) -> Rest:
        """Log every step of a claim's life that is not logged yet."""
        self._claim_log.write()
        return Rest(at_least=GATHER)

    def _measure(self) -> None:
        metrics = self._telemetry.metrics
        self._draining.measure(metrics)
        measure_process(metrics, "rtagentd", self.in_flight, self._adapters.database.sql_errors)
        measure_node(metrics, self._node.tracker, self._audits, self.monitors, self._clock)
        self.placement.measure(metrics)
        self._notifications.measure(metrics)
