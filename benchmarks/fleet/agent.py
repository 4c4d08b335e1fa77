"""FleetAgent: the parts of an rtagentd, of which many share one process."""

from __future__ import annotations

from functools import partial

import oslo_messaging
from oslo_config import cfg

from benchmarks.fleet.host import FleetHost
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.embedded import SystemClock, host_identity
from rtagent.model.health import Status
from rtagent.model.node_state import NodeState
from rtagent.rpc import AGENT
from rtagent.rpc.transport import get_transport
from rtagent.service import assembly
from rtagent.service.agent import RPC_PATIENCE
from rtagent.service.assembly import NodeDatabase
from rtagent.service.configuration import Configuration
from rtagent.service.main_thread import READY, EventQueue, Startup
from rtagent.service.node import NodeAgent
from rtagent.service.process import RunningParts
from rtagent.service.rpc_service import RpcService
from rtagent.service.systemd import Notifier
from rtagent.service.trust import CallerAccess
from rtagent.telemetry.telemetry import Telemetry

#: The part of an agent that is behind while Placement does not show its inventories.
_PLACEMENT_LAG = "placement lag"
#: The gauge of this lag. Revisions do not show it: changes of the node since the revision that
#: Placement shows may not concern Placement.
_LAG = "rtagent_placement_lag_seconds"


class FleetAgent:
    """An agent is made and connected as `rtagent.service.agent` does it, with these differences:

    - agents of one process share its interpreter, and every five of them the connections to the
      database;
    - the hypervisor is in memory, so that libvirt takes no time, and there is no read API.

    :ivar hypervisor: of its host.
    :ivar ready: whether the first audit was good. :ivar error: what has ended it, or "".
    """

    def __init__(self, host: FleetHost) -> None:
        """Read the configuration, and start nothing."""
        self.host, self.hypervisor = host, host.hypervisor()
        self.ready, self.error = False, ""
        self._clock = SystemClock()
        arguments = ["--config-file", str(host.config_file)]
        configuration = Configuration(cfg.ConfigOpts(), "rtagentd", arguments)
        self._settings = SettingsHolder(configuration.read())
        self._conf = configuration.conf
        self.telemetry = Telemetry(self._clock)
        self._events, self._parts = EventQueue(), RunningParts(self.telemetry)
        self._node: NodeAgent | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the agent."""
        return self._settings.current

    def start(self, database: NodeDatabase) -> None:
        """Become the writer of the node, and start every part.

        :param database: shared with other agents of the process.
        :raises IdentityError: another agent has this host.
        """
        parts, transport = self._parts, get_transport(self._conf)
        node = self._node = self._open(database, transport)
        access = CallerAccess(AGENT, self._conf, self._settings, self._clock, self.telemetry)
        rpc = RpcService(
            transport,
            self._settings,
            node.endpoint(access.access),
            node.in_flight,
            node.duplicates,
            node.casts,
            self._clock,
            self.telemetry,
        )
        node.watch()
        for loop in node.loops:
            parts.start_loop(loop)
        node.placement.start()
        parts.add("placement", node.placement.stop)
        parts.add("rpc", partial(rpc.stop, RPC_PATIENCE))
        rpc.start()
        parts.callback(node.leave)

    def stop(self) -> None:
        """Stop every part, as at SIGTERM."""
        self._parts.stop()

    def look(self) -> None:
        """Note whether the agent has become ready, or has failed."""
        while (event := self._events.get(0)) is not None:
            if event == READY:
                self.ready = True
            else:
                self.error = str(event)

    @property
    def state(self) -> NodeState:
        """The state that the agent has published."""
        assert self._node is not None
        return self._node.sources.snapshot()

    @property
    def behind(self) -> list[str]:
        """The parts that do not work, or have not caught up yet."""
        found = [check.part for check in self.telemetry.checks() if check.status is not Status.PASS]
        (lag,) = self.telemetry.metrics.registry.restricted_registry([_LAG]).collect()
        return [*found, _PLACEMENT_LAG] if lag.samples[0].value else found

    def _open(self, database: NodeDatabase, transport: oslo_messaging.RPCTransport) -> NodeAgent:
        settings, telemetry, clock = self._settings.current, self.telemetry, self._clock
        identity = host_identity(settings, telemetry)
        self._parts.callback(identity.release)
        identity.lock_state_directory()
        identity.lock_hypervisor(self.hypervisor.identity())
        startup = Startup(self._events, Notifier(), clock, telemetry)
        make = partial(
            NodeAgent,
            assembly.adapters(self._conf, settings, self.hypervisor, database, transport),
            identity,
            self._settings,
            telemetry,
            clock,
            self._events,
        )
        return startup.wait_for("the database", make)
