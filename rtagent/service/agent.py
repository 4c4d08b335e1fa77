"""Agent: the daemon's process, from start to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from oslo_log import log

from rtagent.api.address import parse
from rtagent.api.server import ReadAPI
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.embedded import host_identity
from rtagent.errors import ConfigError, RtAgentError, StoreDamaged
from rtagent.identity.node_identity import HostNodeIdentity
from rtagent.ports import Clock, Hypervisor
from rtagent.service import assembly
from rtagent.service.assembly import Adapters
from rtagent.service.configuration import Configuration
from rtagent.service.described import log_state
from rtagent.service.loop import Loop
from rtagent.service.main_thread import (
    DESCRIBE,
    READY,
    RELOAD,
    STOP,
    EventQueue,
    Startup,
    Stopped,
)
from rtagent.service.node import NodeAgent
from rtagent.service.rpc_service import RpcService
from rtagent.service.systemd import Notifier, Watchdog
from rtagent.telemetry.telemetry import Telemetry

#: The time-out in seconds for calls in flight to end, and then for each thread.
RPC_PATIENCE = 30.0
LOOP_PATIENCE = 5.0
#: Seconds for which READY=1 waits for the broker. Otherwise, a call that is made at once would be
#: lost.
BROKER_PATIENCE = 5.0
#: Seconds between two checks of the threads.
TICK = 1.0
#: Seconds after which a thread without progress counts as hung, if systemd does not set its own
#: limit.
HUNG = 300.0

LOG = log.getLogger(__name__)


class Agent:
    """:ivar blocked: the names of the parts that had not ended when the process had to end."""

    def __init__(
        self,
        configuration: Configuration,
        settings: Settings,
        telemetry: Telemetry,
        clock: Clock,
        events: EventQueue,
    ) -> None:
        """:param settings: the settings that `configuration` has read.
        :param events: catches the signals already.
        """
        self.blocked: list[str] = []
        self._rebuilt = False
        self._configuration, self._settings = configuration, SettingsHolder(settings)
        self._telemetry, self._clock = telemetry, clock
        self._reporter = telemetry.named(__name__)
        self._events, self._notifier = events, Notifier()

    def run(self) -> None:
        """Serve until a signal requests a stop.

        :raises IdentityError: SchemaMismatch: WriterFenced: ConfigError: an operator has to correct
            the cause.
        """
        self._log_doubts()
        with ExitStack() as stack:
            try:
                self._serve(*self._start(stack))
            except Stopped:
                pass
            except RtAgentError as error:
                self._notifier.status(f"stopping: {error.message}")
                raise
            finally:
                self._notifier.stopping()
        self._reporter.log("info", "stopped")

    # -- start ------------------------------------------------------------------------------------

    def _start(self, stack: ExitStack) -> tuple[NodeAgent, RpcService, Watchdog]:
        """Start everything. `stack` stops it in the reverse order."""
        node = self._open(stack)
        self._start_read_api(node, stack)
        node.watch()
        stack.callback(node.write_log)
        for loop in node.loops:
            self._start_loop(loop, stack)
        node.publisher.start()
        stack.callback(self._stop, "placement", node.publisher.stop)
        node.allocation_writes.start()
        stack.callback(self._stop, "allocation-writes", node.allocation_writes.stop)
        rpc = self._start_rpc(node, stack)
        limit = self._notifier.watchdog_seconds or HUNG
        return node, rpc, Watchdog(limit, node.vital_loops, self._notifier, self._telemetry)

    def _open(self, stack: ExitStack) -> NodeAgent:
        """Prove the identity of the node, and load its state from the store."""
        settings, telemetry = self._settings.current, self._telemetry
        startup = Startup(self._events, self._notifier, self._clock, telemetry)
        identity = host_identity(settings, telemetry, take_over=self._configuration.take_over)
        stack.callback(identity.release)
        identity.lock_state_directory()
        hypervisor = assembly.hypervisor(settings, telemetry)
        stack.callback(hypervisor.stop)
        identity.lock_hypervisor(startup.wait_for("the hypervisor", hypervisor.identity))
        load = partial(self._load, startup, identity, hypervisor, stack)
        try:
            return load()
        except StoreDamaged as error:
            if not self._configuration.rebuild:
                raise
            self._set_aside(error)
        self._rebuilt = True
        return load()

    def _load(
        self,
        startup: Startup,
        identity: HostNodeIdentity,
        hypervisor: Hypervisor,
        stack: ExitStack,
    ) -> NodeAgent:
        """Load the state of the node from the database."""
        settings, telemetry = self._settings.current, self._telemetry
        with ExitStack() as opened:
            database = startup.wait_for("the database", partial(assembly.database, settings))
            opened.callback(database.close)
            adapters = Adapters(
                hypervisor=hypervisor,
                database=database,
                placement=assembly.placement(self._configuration.conf),
                allocation_audits=assembly.placement(self._configuration.conf),
                allocation_calls=assembly.placement(self._configuration.conf),
                allocation_writes=assembly.placement(self._configuration.conf),
                cpu_power=assembly.cpu_power(settings),
            )
            make = partial(
                NodeAgent, adapters, identity, self._settings, telemetry, self._clock, self._events
            )
            self._reporter.health("store", "pass")  # unless the node finds that it was restored
            node = startup.wait_for("the database", make)
            stack.callback(opened.pop_all().close)
        return node

    def _set_aside(self, error: StoreDamaged) -> None:
        """Set the damaged database aside, so that the next load creates a new one."""
        files = assembly.set_database_aside(self._settings.current, self._clock.now())
        if not files:  # on a server
            raise error
        listed = ", ".join(map(str, files))
        self._reporter.log("error", error.message)
        self._reporter.log(
            "warning",
            f"the damaged database is now {listed}; a new one has no claims, and rtagent node"
            " accept-restore accepts it",
        )

    def _start_read_api(self, node: NodeAgent, stack: ExitStack) -> None:
        address = self._settings.current.api.address
        api = ReadAPI(parse(address), node.sources(), self._telemetry)
        try:
            api.start()
        except OSError as exc:
            rule = f"cannot be listened on: {exc.strerror}"
            raise ConfigError(group="api", option="address", value=address, rule=rule) from exc
        stack.callback(api.stop)

    def _start_rpc(self, node: NodeAgent, stack: ExitStack) -> RpcService:
        rpc = RpcService(
            self._configuration.conf,
            self._settings,
            node.endpoint(),
            node.in_flight,
            node.duplicates,
            self._clock,
            self._telemetry,
        )
        stack.callback(self._stop, "rpc", partial(rpc.stop, RPC_PATIENCE))
        rpc.start()
        self._start_loop(rpc.probe, stack)
        return rpc

    def _start_loop(self, loop: Loop, stack: ExitStack) -> None:
        loop.start()
        stack.callback(self._stop, loop.name, partial(loop.stop, LOOP_PATIENCE))

    # -- while it runs ----------------------------------------------------------------------------

    def _serve(self, node: NodeAgent, rpc: RpcService, watchdog: Watchdog) -> None:
        while (event := self._events.get(TICK)) != STOP:
            if isinstance(event, RtAgentError):
                raise event
            if event == READY:
                rpc.wait_started(BROKER_PATIENCE)
                self._notifier.ready()
                if self._rebuilt:
                    node.log_orphans()
            if event == DESCRIBE:
                log_state(self._reporter, node.status(), self._telemetry.checks())
            if event == RELOAD:
                self._reload(node)
            watchdog.check()
            self._notifier.status(node.status())
        self._reporter.log("info", "stopping")
        self._notifier.status("stopping: finishing the calls in flight")

    def _reload(self, node: NodeAgent) -> None:
        """Apply the whole new configuration, or nothing of it."""
        self._notifier.reloading()
        mistakes: Sequence[BaseException] = ()
        try:
            candidate = self._configuration.candidate()
            node.check(candidate)
            self._settings.current = self._configuration.reload(candidate)
        except* ConfigError as group:
            mistakes = group.exceptions
        else:
            self._log_doubts()
            node.reload()
            self._reporter.log("info", "the configuration was reloaded")
        for error in mistakes:  # logged here, because oslo.log would add the group to the line
            LOG.error("the old configuration stays in force: %s", error)
        self._notifier.reloaded()

    def _log_doubts(self) -> None:
        """Log each setting that is valid but probably not intended.

        Like mistakes, these lines answer a request of the operator, who may repeat it. So they are
        not throttled.
        """
        for doubt in self._settings.current.doubts():
            LOG.warning("%s", doubt)

    # -- stop -------------------------------------------------------------------------------------

    def _stop(self, name: str, stop: Callable[[], bool]) -> None:
        """Stop one part. Record it in `blocked` if it does not end in time."""
        if not stop():
            self.blocked.append(name)
            self._reporter.log("warning", f"{name} did not end in time and is left running")
