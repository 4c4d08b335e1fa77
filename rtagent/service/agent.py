"""Agent: the program of rtagentd, from start to stop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import oslo_messaging
from oslo_log import log

from rtagent.api.address import parse
from rtagent.api.guard import Guard
from rtagent.api.server import ReadAPI
from rtagent.conf.settings import Settings
from rtagent.db.restore import set_aside
from rtagent.embedded import host_identity
from rtagent.errors import StoreDamaged
from rtagent.identity.node_identity import HostNodeIdentity
from rtagent.ports import Hypervisor
from rtagent.rpc import AGENT
from rtagent.rpc.transport import get_transport
from rtagent.service import assembly
from rtagent.service.loop import Turn
from rtagent.service.main_thread import Startup
from rtagent.service.node import NodeAgent
from rtagent.service.process import ProcessContext, RunningParts
from rtagent.service.rpc_service import RpcService
from rtagent.service.trust import CallerAccess

#: The time-out in seconds for calls in flight to end.
RPC_PATIENCE = 30.0
#: Seconds for which READY=1 waits for the broker. Otherwise, a call that is made at once would be
#: lost.
BROKER_PATIENCE = 5.0

LOG = log.getLogger(__name__)


class Agent:
    """A `Program`."""

    def __init__(self, context: ProcessContext, parts: RunningParts) -> None:
        """Start everything.

        :raises IdentityError: SchemaMismatch: WriterFenced: ConfigError: an operator has to correct
            the cause.
        """
        self._context = context
        self._reporter = context.telemetry.named(__name__)
        self._rebuilt = False
        conf, settings = context.configuration.conf, context.settings.current
        clock, telemetry = context.clock, context.telemetry
        self._callers = CallerAccess(AGENT, conf, context.settings, clock, telemetry)
        self._log_doubts()
        transport = get_transport(conf)
        node = self._node = self._open(parts, transport)
        address = parse(settings.api.address)
        guard = Guard(address, settings.api)
        self._api = ReadAPI(address, node.sources, telemetry, guard=guard)
        parts.start_read_api(self._api, "api", "address")
        self._rpc = RpcService(
            transport,
            context.settings,
            node.endpoint(self._callers.access),
            node.in_flight,
            node.duplicates,
            node.casts,
            clock,
            telemetry,
        )
        node.add_sections(context.report, self._rpc.turns)
        self._start(parts)

    def _start(self, parts: RunningParts) -> None:
        """Start the threads, after all parts are there."""
        node, rpc = self._node, self._rpc
        node.watch()
        parts.callback(node.write_log)
        for loop in node.loops:
            if loop is not node.casts:
                parts.start_loop(loop)
        node.placement.start()
        parts.add("placement", node.placement.stop)
        parts.add("rpc", partial(rpc.stop, RPC_PATIENCE))
        rpc.start()
        parts.start_loop(node.casts)  # stops before the server, which answers its probe
        parts.callback(node.leave)  # comes first at a stop

    def _open(self, parts: RunningParts, transport: oslo_messaging.RPCTransport) -> NodeAgent:
        """Prove the identity of the node, and load its state from the store."""
        context, settings = self._context, self._context.settings.current
        telemetry, configuration = context.telemetry, context.configuration
        startup = Startup(context.events, context.notifier, context.clock, telemetry)
        identity = host_identity(settings, telemetry, take_over=configuration.take_over)
        parts.callback(identity.release)
        identity.lock_state_directory()
        hypervisor = assembly.hypervisor(settings, telemetry)
        parts.callback(hypervisor.stop)
        identity.lock_hypervisor(startup.wait_for("the hypervisor", hypervisor.identity))
        load = partial(self._load, startup, identity, hypervisor, transport, parts)
        try:
            return load()
        except StoreDamaged as error:
            if not configuration.rebuild:
                raise
            self._set_aside(error)
        self._rebuilt = True
        return load()

    def _load(
        self,
        startup: Startup,
        identity: HostNodeIdentity,
        hypervisor: Hypervisor,
        transport: oslo_messaging.RPCTransport,
        parts: RunningParts,
    ) -> NodeAgent:
        """Load the state of the node from the database."""
        context, settings = self._context, self._context.settings.current
        conf = context.configuration.conf
        with ExitStack() as opened:
            database = startup.wait_for("the database", partial(assembly.database, settings))
            opened.callback(database.close)
            make = partial(
                NodeAgent,
                assembly.adapters(conf, settings, hypervisor, database, transport),
                identity,
                context.settings,
                context.telemetry,
                context.clock,
                context.events,
                context.liveness.hung,
            )
            self._reporter.health("store", "pass")  # unless the node finds that it was restored
            node = startup.wait_for("the database", make)
            parts.callback(opened.pop_all().close)
        return node

    def _set_aside(self, error: StoreDamaged) -> None:
        """Set the damaged database aside, so that the next load creates a new one."""
        connection = self._context.settings.current.database.connection
        files = set_aside(connection, self._context.clock.now())
        if not files:  # on a server
            raise error
        listed = ", ".join(map(str, files))
        self._reporter.log("error", error.message)
        self._reporter.log(
            "warning",
            f"the damaged database is now {listed}; a new one has no claims, and rtagent node"
            " accept-restore accepts it",
        )

    # -- while it runs ----------------------------------------------------------------------------

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns whose progress is reported."""
        return [turn for loop in self._node.loops for turn in loop.turns]

    @property
    def vital_turns(self) -> Sequence[Turn]:
        """The turns whose progress the watchdog checks."""
        return [*self._node.vital_turns, *self._rpc.turns]

    def ready(self) -> None:
        """Wait until calls are served, and log what a new database does not know."""
        self._rpc.wait_started(BROKER_PATIENCE)
        if self._rebuilt:
            self._node.log_orphans()

    def status(self) -> str:
        """Return the status in one sentence, for ``systemctl status``."""
        return self._node.status()

    def check(self, settings: Settings) -> None:
        """Check whether a reload can apply these settings. :raises ConfigError: it cannot."""
        self._node.check(settings)

    def reload(self) -> None:
        """React to new settings, which are in force already."""
        self._log_doubts()
        self._api.reload(self._context.settings.current.api)
        self._node.reload()
        self._callers.reload()

    def _log_doubts(self) -> None:
        """Log each setting that is valid but probably not intended.

        Like mistakes, these lines answer a request of the operator, who may repeat it. So they are
        not throttled.
        """
        for doubt in self._context.settings.current.doubts():
            LOG.warning("%s", doubt)
