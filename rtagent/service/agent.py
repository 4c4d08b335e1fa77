"""Agent: one running daemon, from its first lock to its last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.api.address import parse
from rtagent.api.server import ReadAPI
from rtagent.conf.settings import Settings
from rtagent.errors import ConfigError, RtAgentError
from rtagent.ports import Clock
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.server import RpcServer
from rtagent.rpc.transport import get_transport
from rtagent.service import assembly
from rtagent.service.boot import Boot, Stopped
from rtagent.service.inbox import OPENED, RELOAD, STOP, Inbox
from rtagent.service.loop import Loop
from rtagent.service.node import NodeAgent
from rtagent.service.notifier import Notifier
from rtagent.service.pulse import Pulse
from rtagent.service.tenure import Tenure
from rtagent.service.watchdog import Watchdog
from rtagent.telemetry.telemetry import Telemetry

#: Seconds that calls in flight may take to end, and then each thread.
RPC_PATIENCE = 30.0
LOOP_PATIENCE = 5.0
#: Seconds for which being ready waits for the broker: a call that is made at once would be lost.
BROKER_PATIENCE = 5.0
#: Seconds for which a call to ourselves waits for its answer.
PULSE_PATIENCE = 5.0
#: Seconds between two looks at how everything is.
TICK = 1.0
#: A loop without progress for as long has hung, where systemd does not say how long.
HUNG = 300.0

#: Whether the host allows these settings; raises `ConfigError`.
Accept = Callable[[Settings], None]


class Agent:
    """:ivar blocked: what had not ended when the process should: it is left behind."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        settings: Settings,
        telemetry: Telemetry,
        clock: Clock,
        *,
        reload: Callable[[Accept], Settings],
        take_over: bool = False,
    ) -> None:
        """:param reload: reads the configuration anew, and has it accepted before it changes
            anything; raises `ConfigError`, or a group of them, and changes nothing then.
        :param take_over: the operator says that another writer is gone.
        """
        self.settings = settings
        self.blocked: list[str] = []
        self._conf, self._reload_settings, self._take_over = conf, reload, take_over
        self._telemetry, self._clock = telemetry, clock
        self._inbox, self._notifier = Inbox(), Notifier()

    def run(self) -> None:
        """Until a signal says to stop.

        :raises IdentityError: SchemaMismatch: WriterFenced: ConfigError: only a person can help.
        """
        self._inbox.attend_signals()
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
        self._telemetry.said("info", "stopped")

    # -- start ------------------------------------------------------------------------------------

    def _start(self, stack: ExitStack) -> tuple[NodeAgent, RpcServer, Watchdog]:
        """What is started last is stopped first."""
        node = self._boot(stack)
        self._start_api(node, stack)
        node.watch()
        stack.callback(node.tell_decisions)
        loops = node.loops()
        for loop in loops:
            loop.start()
            stack.callback(self._end, loop)
        if node.mirror is not None:
            node.mirror.start()
            stack.callback(self._note_blocked, "placement", node.mirror.stop)
        rpc = self._start_rpc(node, stack)
        limit = self._notifier.watchdog_seconds or HUNG
        vital = [loop for loop in loops if loop.name in ("audit", "heartbeat", "keeper")]
        return node, rpc, Watchdog(limit, vital, self._notifier, self._telemetry)

    def _boot(self, stack: ExitStack) -> NodeAgent:
        """Prove who we are, and load what the store has."""
        settings, reporter = self.settings, self._telemetry
        boot = Boot(settings, self._inbox, self._notifier, self._clock, reporter)
        stack.callback(boot.lock_state().drop)
        hypervisor = assembly.hypervisor(settings, reporter)
        stack.callback(hypervisor.stop)
        tenure = Tenure(settings.default.lock_path, reporter)
        stack.callback(tenure.drop)
        found = boot.until("the hypervisor", hypervisor.identity)
        tenure.take(found)
        database = boot.until("the database", lambda: assembly.database(settings))
        stack.callback(database.close)
        stored = boot.until(
            "the database", lambda: boot.enroll(database.store, found, self._take_over)
        )
        reporter.health("store", "pass")
        return NodeAgent(
            stored,
            tenure,
            hypervisor,
            database,
            assembly.placement(self._conf),
            assembly.cpu_power(settings),
            lambda: self.settings,
            self._telemetry,
            self._clock,
            opened=lambda: self._inbox.put(OPENED),
            failed=self._inbox.put,
        )

    def _start_api(self, node: NodeAgent, stack: ExitStack) -> None:
        api = ReadAPI(parse(self.settings.api.address), node.sources(), self._telemetry)
        try:
            api.start()
        except OSError as exc:
            rule = f"cannot be listened on: {exc.strerror}"
            raise ConfigError(
                group="api", option="address", value=self.settings.api.address, rule=rule
            ) from exc
        stack.callback(api.stop)

    def _start_rpc(self, node: NodeAgent, stack: ExitStack) -> RpcServer:
        transport, host = get_transport(self._conf), self.settings.default.host
        server = RpcServer(
            transport,
            host,
            node.endpoint(),
            node.in_flight,
            self._clock,
            self._telemetry,
        )
        stack.callback(self._note_blocked, "rpc", lambda: server.stop(RPC_PATIENCE))
        server.start()
        api = AgentAPI(transport, host, timeout=PULSE_PATIENCE, attempts=1)
        pulse = self._pulse(server, api)
        pulse.start()
        stack.callback(self._end, pulse)
        return server

    def _pulse(self, server: RpcServer, api: AgentAPI) -> Loop:
        pulse = Pulse(
            lambda: server.wait_started(0),
            lambda: api.ping(RequestContext(overwrite=False)),
            self._telemetry,
            interval=lambda: self.settings.default.report_interval,
        )
        return Loop("pulse", pulse.turn, self._clock, self._telemetry)

    # -- while it runs ----------------------------------------------------------------------------

    def _serve(self, node: NodeAgent, rpc: RpcServer, watchdog: Watchdog) -> None:
        while (news := self._inbox.get(TICK)) != STOP:
            if isinstance(news, RtAgentError):
                raise news
            if news == OPENED:
                rpc.wait_started(BROKER_PATIENCE)
                self._notifier.ready()
            if news == RELOAD:
                self._reload(node)
            watchdog.look()
            self._notifier.status(node.sentence())
        self._telemetry.said("info", "stopping")
        self._notifier.status("stopping: finishing the calls in flight")

    def _reload(self, node: NodeAgent) -> None:
        """All of the new configuration, or none of it."""
        self._notifier.reloading()
        mistakes: Sequence[BaseException] = ()
        try:
            self.settings = self._reload_settings(node.check)
        except* ConfigError as group:
            mistakes = group.exceptions
        else:
            node.reload()
            self._telemetry.said("info", "the configuration was read anew")
        for error in mistakes:  # here, or oslo.log would add the group to the sentence
            self._telemetry.said("error", f"the old configuration stays in force: {error}")
        self._notifier.reloaded()

    # -- stop -------------------------------------------------------------------------------------

    def _end(self, loop: Loop) -> None:
        self._note_blocked(loop.name, lambda: loop.stop(LOOP_PATIENCE))

    def _note_blocked(self, name: str, stop: Callable[[], bool]) -> None:
        if not stop():
            self.blocked.append(name)
            self._telemetry.said("warning", f"{name} did not end in time and is left behind")
