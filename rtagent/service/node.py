"""NodeAgent: create the parts that serve one node, and connect their reactions to each other's
events.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence

import rtagent
from rtagent.api.routes import Sources
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.embedded import open_node
from rtagent.errors import DuplicateHost, HypervisorUnavailable, RtAgentError
from rtagent.identity import machine
from rtagent.identity.node_identity import HostNodeIdentity
from rtagent.model.change import Change
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.ports import Clock
from rtagent.reconcile.drift import orphans
from rtagent.rpc.duplicates import AgentIdentity, Duplicates, ascii_text
from rtagent.rpc.endpoint import Endpoint, InFlight, PlacementCalls
from rtagent.service.admission import Admission
from rtagent.service.allocation_audits import AllocationAudits
from rtagent.service.allocation_calls import AllocationCalls
from rtagent.service.allocation_writes import AllocationWrites
from rtagent.service.assembly import Adapters
from rtagent.service.audits import Audits
from rtagent.service.context import NodeContext
from rtagent.service.heartbeat import Heartbeat
from rtagent.service.host_checks import HostChecks
from rtagent.service.housekeeping import Housekeeping
from rtagent.service.loop import Loop, Rest
from rtagent.service.main_thread import READY, EventQueue
from rtagent.service.power import Power
from rtagent.service.provider_file_checks import ProviderFileChecks
from rtagent.service.publisher import Publisher
from rtagent.service.recovery import Recovery
from rtagent.telemetry.claim_log import ClaimLog
from rtagent.telemetry.telemetry import Telemetry
from rtagent.virt.libvirt import guest

#: The threads whose progress the watchdog checks.
VITAL = ("audit", "heartbeat", "recovery")
#: Seconds for which steps of claims are collected, so that many share a log line.
GATHER = 0.1


class NodeAgent:
    """The parts of one node's agent, and the `NodeEvents` that they report.

    :ivar in_flight: the RPC calls that are being served.
    :ivar duplicates: whether another agent serves this host name.
    :ivar publisher: publishes the node to Placement.
    :ivar allocation_writes: writes the allocations of its claims there.
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
        database = adapters.database
        self._heartbeat = Heartbeat(context, database.registry, node.tracker, database.faults)
        self._make_placement_parts(context)
        self._claim_log = ClaimLog(telemetry)
        self.in_flight = InFlight(clock)
        me = _identity(node.node, settings.current.default.state_path)
        self.duplicates = Duplicates(me, node.node.host, clock, self._duplicated)
        self._loops = self._make_loops(context)
        node.tracker.listen(self._published)
        self._measure()

    def _make_placement_parts(self, context: NodeContext) -> None:
        """Build the parts that read and write Placement."""
        adapters, node = self._adapters, self._node
        self.publisher = Publisher(
            context, adapters.placement, node, self._admission, self._heartbeat
        )
        self._allocation_audits = AllocationAudits(
            context, adapters.allocation_audits, node, adapters.database.store, self.publisher
        )
        self._allocation_calls = AllocationCalls(context, adapters.allocation_calls, node)
        self.allocation_writes = AllocationWrites(
            context, adapters.allocation_writes, node, self.publisher
        )

    def _make_loops(self, context: NodeContext) -> dict[str, Loop]:
        """Create the threads, by name, in the order in which they start."""
        tracker, store = self._node.tracker, self._adapters.database.store
        turns = {
            "heartbeat": self._heartbeat.turn,
            "recovery": Recovery(context, self._node).turn,
            "housekeeping": Housekeeping(context, store, tracker).turn,
            "log": self._write_log,
            "power": self._power.turn,
            "audit": self._audits.turn,
            "allocation-audit": self._allocation_audits.turn,
            "allocation-calls": self._allocation_calls.turn,
        }
        loops = {
            name: Loop(name, turn, context.clock, context.reporter) for name, turn in turns.items()
        }
        self._allocation_calls.attach(loops["allocation-calls"].wake)
        return loops

    # -- for the process --------------------------------------------------------------------------

    @property
    def loops(self) -> Sequence[Loop]:
        """Every thread but the publisher's, in the order in which they start."""
        return tuple(self._loops.values())

    @property
    def vital_loops(self) -> Sequence[Loop]:
        """The threads whose progress the watchdog checks."""
        return [self._loops[name] for name in VITAL]

    def watch(self) -> None:
        """Start audits on the hypervisor's events from now on."""
        self._adapters.hypervisor.start(self._noticed)

    def endpoint(self) -> Endpoint:
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
                sync=self._sync_placement,
                delete_allocation=self._allocation_calls.delete,
                confirm=self.allocation_writes.confirm,
            ),
            self._power.settle,
            self.duplicates,
        )

    def sources(self) -> Sources:
        """Return the sources of the read API."""
        return Sources(
            snapshot=self._node.tracker.snapshot,
            stale=lambda: self._node.tracker.stale,
            checks=self._telemetry.checks,
            creation_error=lambda: self._admission.why_closed,
            registry=self._telemetry.metrics.registry,
            allocations=self._allocation_audits.document,
        )

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
        self._loops["heartbeat"].wake()
        self._loops["power"].wake()
        self._loops["allocation-audit"].wake()
        self._audit("reload")
        self.publisher.reread()
        self.allocation_writes.recheck()

    def log_orphans(self) -> None:
        """Log every domain that has no claim, for a database that was begun anew."""
        for usage in orphans(self._node.state):
            self._telemetry.named(__name__).log(
                "warning",
                f"orphan {usage.domain_uuid} {usage.name!r}: {usage.vcpus} vCPUs,"
                f" {usage.memory_mb} MB; it is counted, and has no claim",
            )

    def write_log(self) -> None:
        """Log every step of a claim's life that is not logged yet."""
        self._claim_log.write()

    # -- NodeEvents -------------------------------------------------------------------------------

    def ready(self) -> None:
        self._power.begin()
        self._loops["power"].wake()
        self._queue.put(READY)
        self.publisher.wake()

    def lost(self) -> None:
        self.publisher.wake()

    def returned(self) -> None:
        self._node.tracker.restart_leases()
        self._audit("store")

    def policy_changed(self) -> None:
        self._audit("policy")

    def service_changed(self) -> None:
        self.publisher.wake()

    def fatal(self, error: RtAgentError) -> None:
        self._queue.put(error)

    # -- other reactions --------------------------------------------------------------------------

    def _duplicated(self, error: DuplicateHost | None) -> None:
        """React to another agent with this host name, or to its end (None)."""
        self._admission.duplicated(error)
        self.publisher.wake()

    def _noticed(self, event: str) -> None:
        """React to an event of the hypervisor. A lost connection closes the admission at once."""
        if event == "connection":
            self._audits.lost(HypervisorUnavailable("the connection to it was lost"))
        self._audit(event)

    def _published(self, state: NodeState, changes: Sequence[Change]) -> None:
        """React to a published change of the state."""
        if self._claim_log.add(changes):
            self._loops["log"].wake()
        if self._power.managed:
            self._loops["power"].wake()
        if self._allocation_audits.listener(changes):
            self._loops["allocation-audit"].wake()

    def _sync_placement(self) -> int:
        revision = self.publisher.sync()
        self.allocation_writes.recheck()
        return revision

    def _audit(self, cause: str) -> None:
        self._audits.add_cause(cause)
        self._loops["audit"].wake()

    def _write_log(self) -> Rest:
        self._claim_log.write()
        return Rest(at_least=GATHER)

    def _measure(self) -> None:
        metrics = self._telemetry.metrics
        metrics.gauge("audit_age_seconds", "Age of the last good audit", lambda: self._audits.age)
        metrics.gauge(
            "calls_in_flight", "RPC calls that are being served", lambda: len(self.in_flight)
        )
        metrics.gauge("threads", "Threads of the process", threading.active_count)
        self.publisher.measure(metrics)
        self._allocation_audits.measure(metrics)
        self.allocation_writes.measure(metrics)


def _identity(node: Node, state_path: str) -> AgentIdentity:
    """The identity of this start of the agent."""
    writer = machine.writer(state_path)
    return AgentIdentity(
        agent_uuid=str(uuid.uuid4()),
        node_uuid=node.uuid,
        node=ascii_text(node.hypervisor_hostname),
        machine_id=ascii_text(writer.machine_id),
        boot_id=ascii_text(writer.boot_id),
        state_path=ascii_text(writer.state_path),
        host_ip=ascii_text(node.host_ip),
    )
