"""SchedulerService: the program of rtagent-scheduler, from start to stop."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import oslo_messaging

import rtagent
from rtagent.api.address import parse
from rtagent.api.guard import Guard
from rtagent.api.scheduler_routes import SchedulerSources
from rtagent.api.server import ReadAPI
from rtagent.conf.settings import Settings
from rtagent.db.host_records import HostRecords, NodeHosts
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.transaction import errors_of
from rtagent.errors import RtAgentError
from rtagent.placement import loading
from rtagent.placement.aggregate_mirror import AggregateMirror
from rtagent.placement.candidates import PlacementCandidates
from rtagent.rpc import SCHEDULER
from rtagent.rpc.methods import SCHEDULER_API
from rtagent.rpc.node_identities import NodeIdentities
from rtagent.rpc.replies import clock_text
from rtagent.rpc.scheduler_endpoint import SchedulerPong, ServedScheduler
from rtagent.rpc.server import RpcServer
from rtagent.rpc.serving import Endpoint, InFlight
from rtagent.rpc.transport import get_transport
from rtagent.rpc.trust.credentials import reload_credentials
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.fleet_counts import FleetCounts, Pace
from rtagent.scheduler.host_manager import HostManager, Times
from rtagent.scheduler.select import Scheduler
from rtagent.scheduler.weighing import HostWeighers
from rtagent.service import scheduler_assembly as assembly
from rtagent.service.explanations import Explanations
from rtagent.service.host_view import HostTurns, RecordedHosts
from rtagent.service.kept_records import KeptAggregates, KeptServices, MirroredAggregates
from rtagent.service.loop import Loop, Rest, Turn
from rtagent.service.main_thread import READY, Startup
from rtagent.service.process import ProcessContext, RunningParts, measure_process
from rtagent.service.scheduler_assembly import SchedulerDatabase
from rtagent.service.scheduler_rpc import SchedulerMessages, SchedulerProbe
from rtagent.service.trust import CallerAccess

#: The time-out in seconds for calls in flight to end.
RPC_PATIENCE = 30.0
#: Seconds for which READY=1 waits for the broker.
BROKER_PATIENCE = 5.0
#: The threads, in the order in which they start: one turn each.
LOOPS = (
    "host-records",  # with a shared database
    "casts",
    "aggregates",
    "services",
    "hosts",
    "aggregates-in-placement",  # with Placement
    "capacity",
)
#: Seconds of one turn of the count of capacity, and for which a call waits for the count.
COUNT_TURN, COUNT_PATIENCE = 0.5, 20.0
#: The help text of a metric.
MESSAGES = "Messages of agents and assumed claims, by outcome"


class SchedulerService:
    """A `Program`."""

    def __init__(self, context: ProcessContext, parts: RunningParts) -> None:
        """Start everything.

        :raises IdentityError: SchemaMismatch: ConfigError: an operator has to correct the cause.
        """
        self._context = context
        self._clock, self._telemetry = context.clock, context.telemetry
        self._uuid, self._started = str(uuid.uuid4()), context.clock.monotonic()
        self._in_flight = InFlight(context.clock)
        self._callers = CallerAccess(
            SCHEDULER,
            context.configuration.conf,
            context.settings,
            context.clock,
            context.telemetry,
        )
        self._loops = {name: Loop(name, None, self._clock, self._telemetry) for name in LOOPS}
        startup = Startup(context.events, context.notifier, self._clock, self._telemetry)
        database = self._open(parts, startup)
        transport = get_transport(context.configuration.conf)
        messages = SchedulerMessages(transport, self._telemetry, self._loops["casts"].wake)
        self._make_view(startup, database, messages)
        self._make_server(transport, database, messages)
        self._add_turns(messages, database)
        self._measure(database)
        self._add_sections()
        settings = context.settings.current
        where = parse(settings.scheduler.api_address)
        guard = Guard(where, settings.api, "scheduler", "api_address")
        self._api = ReadAPI(where, self._sources(), self._telemetry, guard=guard)
        self._start(parts)

    def _open(self, parts: RunningParts, startup: Startup) -> SchedulerDatabase:
        settings = self._context.settings.current
        lock = assembly.state_lock(settings)
        lock.take()
        parts.callback(lock.drop)
        database = startup.wait_for("the database", partial(assembly.database, settings))
        parts.callback(database.close)
        return database

    def _make_view(
        self, startup: Startup, database: SchedulerDatabase, messages: SchedulerMessages
    ) -> None:
        """Build the view of the hosts, with the records of the database, and what selects."""
        conf, settings = self._context.configuration.conf, self._context.settings.current
        clock, telemetry, loops = self._clock, self._telemetry, self._loops
        changed = messages.aggregates_changed if database.shared else _nothing
        manager = self._manager = HostManager(clock, telemetry, messages.ask, _times(settings))
        self._aggregates = startup.wait_for(
            "the database",
            lambda: KeptAggregates(
                database.aggregates, manager, changed, self._reread, clock, telemetry
            ),
        )
        registry, wake = SqlServiceRegistry(database.engine), loops["services"].wake
        self._services = startup.wait_for(
            "the database", lambda: KeptServices(registry, manager, changed, wake, telemetry)
        )
        connect = loading.connector(conf)
        self._placement = None if connect is None else PlacementCandidates(connect)
        filters, weighers = load_rules(settings)
        self._scheduler = Scheduler(
            manager,
            filters,
            weighers,
            settings.scheduler_options,
            self._placement,
            clock,
            telemetry,
        )
        scheduler, current = self._scheduler, self._context.settings
        self._counts = FleetCounts(
            lambda: scheduler.parts,
            lambda: current.current.flavors,
            loops["capacity"].wake,
            Pace(lambda: bool(scheduler.selecting)),
        )

    def _make_server(
        self,
        transport: oslo_messaging.RPCTransport,
        database: SchedulerDatabase,
        messages: SchedulerMessages,
    ) -> None:
        """Build the RPC server, what probes it, and what says when the view is complete."""
        settings, clock, telemetry = self._context.settings, self._clock, self._telemetry
        self._server = RpcServer(
            transport,
            settings.current.default.host,
            self._endpoint(messages, database),
            self._in_flight,
            clock,
            telemetry,
            SCHEDULER,
        )
        probe = SchedulerProbe(transport, self._server, settings, self._uuid, telemetry)
        self._probe = Loop("rpc-probe", probe.turn, clock, telemetry)
        self._view = HostTurns(
            self._manager,
            settings,
            lambda: self._server.wait_started(0),
            partial(self._context.events.put, READY),
            clock,
            telemetry,
        )

    def _add_sections(self) -> None:
        """Add what the state report shows of a scheduler."""
        report, turns = self._context.report, self.turns
        report.add("Status", lambda: [self.status()])
        report.add("Calls in flight", lambda: [str(self._in_flight)])
        report.add(
            "Threads of work", lambda: [f"{turn.name}: {turn.overdue:.1f} s late" for turn in turns]
        )

    def _start(self, parts: RunningParts) -> None:
        """Start the threads, after all parts are there."""
        parts.start_read_api(self._api, "scheduler", "api_address")
        for loop in self._loops.values():
            if loop.turns:
                parts.start_loop(loop)
        parts.add("rpc", partial(self._server.stop, RPC_PATIENCE))
        self._server.start()
        parts.start_loop(self._probe)

    def _endpoint(self, messages: SchedulerMessages, database: SchedulerDatabase) -> Endpoint:
        served = ServedScheduler(
            scheduler=self._scheduler,
            count_room=lambda spec, by: self._counts.of_request(spec, by, COUNT_PATIENCE),
            spec_of=lambda flavor: self._counts.spec_of(flavor, COUNT_PATIENCE),
            hosts=self._manager,
            aggregates=self._aggregates,
            services=self._services,
            pong=self._pong,
            not_ready=self._error,
            unknown_claim=messages.unknown_claim,
        )
        return Endpoint(
            SCHEDULER_API,
            served,
            self._in_flight,
            self._clock,
            self._telemetry,
            self._callers.access,
            check_caller=NodeIdentities(
                NodeHosts(database.engine),
                self._callers.authentication.has_key_of,
                self._manager.forget_node,
                self._clock,
            ),
        )

    def _add_turns(self, messages: SchedulerMessages, database: SchedulerDatabase) -> None:
        turns = {
            **self._database_turns(database),
            "casts": messages.turn,
            "aggregates": self._aggregates.records.turn,
            "services": self._services.records.turn,
            "hosts": self._view.turn,
            "capacity": self._count,
            **self._placement_turns(database),
        }
        for name, turn in turns.items():
            self._loops[name].add(name, turn)

    def _count(self) -> Rest:
        """Count for a while, and rest until the room is asked again."""
        return Rest() if self._counts.count(COUNT_TURN) else Rest(at_most=0.0)

    def _reread(self) -> None:
        """Read what another scheduler may have changed in the database."""
        for name in ("aggregates", "services"):
            self._loops[name].wake()

    def _database_turns(self, database: SchedulerDatabase) -> dict[str, Callable[[], Rest]]:
        """The thread that reads the records of the agents, if there are any."""
        if not database.shared:
            return {}
        records = HostRecords(database.engine)
        recorded = RecordedHosts(records, self._manager, self._clock, self._telemetry)
        return {"host-records": recorded.turn}

    def _placement_turns(self, database: SchedulerDatabase) -> dict[str, Callable[[], Rest]]:
        """The thread that shows aggregates in Placement, if that is configured."""
        placement = loading.load(self._context.configuration.conf)
        if placement is None:
            return {}
        mirrored = MirroredAggregates(
            AggregateMirror(placement),
            self._manager.get_all_host_states,
            lambda: self._aggregates.known,
            database.aggregates.deleted,
            self._clock,
            self._telemetry,
        )
        return {"aggregates-in-placement": mirrored.turn}

    # -- Program ----------------------------------------------------------------------------------

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns whose progress is reported."""
        loops = [*self._loops.values(), self._probe]
        return [turn for loop in loops for turn in loop.turns]

    @property
    def vital_turns(self) -> Sequence[Turn]:
        """The turns whose progress the watchdog checks."""
        return [*self._loops["hosts"].turns, *self._probe.turns]

    def ready(self) -> None:
        """Wait until calls are served."""
        self._server.wait_started(BROKER_PATIENCE)

    def status(self) -> str:
        """Return the status in one sentence, for ``systemctl status``."""
        number = len(self._manager.get_all_host_states())
        known = f"{number} hosts are known"
        return f"waiting for reports; {known}" if self._view.not_ready else f"selecting; {known}"

    def check(self, settings: Settings) -> None:
        """Check whether the filters and weighers can be loaded. :raises ConfigError:"""
        load_rules(settings)

    def reload(self) -> None:
        """Use the new settings for the requests that follow."""
        self._callers.reload()
        reload_credentials()
        settings = self._context.settings.current
        filters, weighers = load_rules(settings)
        self._scheduler.reconfigure(filters, weighers, settings.scheduler_options)
        self._manager.set_times(_times(settings))
        self._api.reload(settings.api)

    # -- what others read -------------------------------------------------------------------------

    def _sources(self) -> SchedulerSources:
        settings = self._context.settings
        return SchedulerSources(
            hosts=self._manager.get_all_host_states,
            aside=self._manager.get_set_aside,
            now=self._clock.monotonic,
            down_time=lambda: settings.current.default.service_down_time,
            decisions=self._scheduler.decisions,
            decision=self._scheduler.decision,
            aggregates=lambda: self._aggregates.known,
            complete=lambda: self._manager.complete,
            checks=self._telemetry.checks,
            error=self._error,
            counts=self._counts,
            registry=self._telemetry.metrics.registry,
            name=settings.current.default.host,
            time=self._clock.now,
            explain=Explanations(self._scheduler).explain,
            hung=self._context.liveness.hung,
        )

    def _error(self) -> RtAgentError | None:
        return self._view.not_ready

    def _pong(self) -> SchedulerPong:
        return SchedulerPong(
            version=rtagent.__version__,
            host=self._context.settings.current.default.host,
            scheduler_uuid=self._uuid,
            uptime=self._clock.monotonic() - self._started,
            hosts=len(self._manager.get_all_host_states()),
            complete=self._manager.complete,
            time=clock_text(self._clock.now()),
        )

    def _measure(self, database: SchedulerDatabase) -> None:
        metrics, manager, placement = self._telemetry.metrics, self._manager, self._placement
        errors = errors_of(database.engine).counts
        measure_process(metrics, "rtagent-scheduler", self._in_flight, errors)
        metrics.gauge("scheduler_hosts", "Hosts", lambda: len(manager.get_all_host_states()))
        metrics.gauge("scheduler_hosts_down", "Hosts that are down", self._view.number_down)
        metrics.gauge("scheduler_complete", "1 if all hosts are known", lambda: manager.complete)
        metrics.gauge("scheduler_aggregates", "Aggregates", lambda: len(self._aggregates.known))
        if placement is not None:
            what = "Requests that wait to ask Placement"
            metrics.gauge("scheduler_queries_waiting", what, lambda: placement.waiting)
        metrics.numbers("scheduler_messages", "outcome", MESSAGES, lambda: manager.counts)


def load_rules(settings: Settings) -> tuple[HostFilters, HostWeighers]:
    """Load the filters and weighers. :raises ConfigError: one is not installed."""
    options = settings.filter_options
    return HostFilters.load(options), HostWeighers.load(options, Random())  # noqa: S311  a choice


def _times(settings: Settings) -> Times:
    down, options = settings.default.service_down_time, settings.scheduler
    return Times(down=down, assume=options.request_timeout + options.assume_timeout)


def _nothing() -> None:
    """No other scheduler has these aggregates."""
