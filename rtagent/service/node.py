"""NodeAgent: the parts that serve one enrolled node, put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec.structs import replace

import rtagent
from rtagent.api.sources import Sources
from rtagent.audit import Auditor
from rtagent.conf.policy import policy
from rtagent.conf.settings import Settings
from rtagent.errors import (
    HypervisorUnavailable,
    IdentityError,
    NodeNotReady,
    PlacementError,
    RtAgentError,
)
from rtagent.kernel import restored
from rtagent.model.change import Change
from rtagent.model.host import HostState
from rtagent.model.node import Ratios
from rtagent.model.policy import Policy
from rtagent.model.topology import Topology
from rtagent.placement import tree
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.ownership import OwnershipFile
from rtagent.placement.provider import Tree
from rtagent.ports import Clock, CpuPower, HostIdentity, Hypervisor, PlacementAPI, Stored
from rtagent.rpc.endpoint import Endpoint
from rtagent.rpc.in_flight import InFlight
from rtagent.service.assembly import Database
from rtagent.service.audits import Audits
from rtagent.service.cpu_sets import CpuSets
from rtagent.service.device_specs import DeviceSpecs
from rtagent.service.gate import Gate
from rtagent.service.housekeeping import Housekeeping
from rtagent.service.keeper import Keeper
from rtagent.service.loop import Loop, Rest
from rtagent.service.power import Power
from rtagent.service.powered_hypervisor import PoweredHypervisor
from rtagent.service.standing import Standing
from rtagent.service.tenure import Tenure
from rtagent.telemetry.decisions import Decisions
from rtagent.telemetry.telemetry import Telemetry
from rtagent.tracker import ResourceTracker
from rtagent.virt.libvirt import guest

#: Seconds of ``update_resources_interval = 0``.
DEFAULT_INTERVAL = 60.0
#: Seconds for which the log gathers decisions, so that many share a line when many are made.
GATHER = 0.1
#: Seconds for which a caller waits until Placement is up to date.
SYNC_PATIENCE = 20.0


class NodeAgent:
    """:ivar mirror: None when nothing is published to Placement."""

    def __init__(
        self,
        stored: Stored,
        tenure: Tenure,
        hypervisor: Hypervisor,
        database: Database,
        placement: PlacementAPI | None,
        power: CpuPower,
        settings: Callable[[], Settings],
        telemetry: Telemetry,
        clock: Clock,
        *,
        opened: Callable[[], None],
        failed: Callable[[RtAgentError], None],
    ) -> None:
        """:param stored: what the store has of the node. :param tenure: of the hypervisor.
        :param power: of the host's CPUs.
        :param settings: those in force now. :param opened: called when calls are granted.
        :param failed: told of what must end the process."""
        self._tenure, self._hypervisor, self._database = tenure, hypervisor, database
        self._settings, self._telemetry, self._clock = settings, telemetry, clock
        self._opened, self._failed = opened, failed
        self.in_flight = InFlight(clock)
        wanted = policy(settings(), stored.ratios)
        state = restored(stored, _with(wanted, stored.ratios))
        self._tracker = ResourceTracker(database.store, clock, state, telemetry)
        self._log_loop = self._loop("log", self._tell)
        self._decisions = Decisions(telemetry, self._log_loop.wake)
        self._tracker.listen(self._decisions.listener)
        self._gate = Gate(self._tracker)
        self._power = self._make_power(power)
        if power.switches_off:
            hypervisor = PoweredHypervisor(hypervisor, self._power, self._topology)
        self._auditor = Auditor(self._tracker, hypervisor, clock, telemetry)
        self._keeper = self._make_keeper(wanted)
        self._cpu_sets = CpuSets(self._tracker.snapshot, telemetry, failed)
        self._device_specs = DeviceSpecs(
            self._tracker.snapshot, lambda: self._auditor.devices, telemetry, failed
        )
        self._audits = self._make_audits()
        self._standing = self._make_standing(state.node.host)
        self.mirror = self._make_mirror(placement) if placement is not None else None
        self._audit_loop = self._loop("audit", self._audits.turn)
        self._heartbeat_loop = self._loop("heartbeat", self._standing.turn)
        self._power_loop = self._loop("power", self._power.turn)
        self._tracker.listen(self._power_changed)
        self._measure()

    # -- what it is made of -----------------------------------------------------------------------

    def loops(self) -> list[Loop]:
        """Every thread of it but the mirror's, in the order in which they start."""
        return [
            self._heartbeat_loop,
            self._loop("keeper", self._keeper.turn),
            self._loop("housekeeping", self._make_housekeeping().turn),
            self._log_loop,
            self._power_loop,
            self._audit_loop,
        ]

    def endpoint(self) -> Endpoint:
        """What the RPC server serves."""
        return Endpoint(
            self._tracker,
            self._auditor,
            self._standing,
            self._clock,
            self._telemetry,
            rtagent.__version__,
            self.in_flight,
            guest,
            self._sync_placement,
            self._power.settle,
        )

    def sources(self) -> Sources:
        """What the read API shows."""
        return Sources(
            snapshot=self._tracker.snapshot,
            stale=lambda: self._tracker.stale,
            checks=self._telemetry.checks,
            held_back=lambda: self._gate.why_closed,
            registry=self._telemetry.metrics.registry,
        )

    def sentence(self) -> str:
        """How it is, for a status line."""
        state, why = self._tracker.snapshot(), self._gate.why_closed
        doing = "granting" if why is None else f"not granting ({why.message})"
        return f"{doing}; {len(state.claims)} claims on {state.node.hypervisor_hostname}"

    def check(self, settings: Settings) -> None:
        """Whether these could be in force on this host. :raises ConfigError:"""
        wanted = self._policy(settings)
        self._cpu_sets.check(wanted)
        self._device_specs.check(wanted)

    def reload(self) -> None:
        """The settings are others now."""
        self._keeper.policy = self._policy(self._settings())
        self._heartbeat_loop.wake()
        self._power_loop.wake()
        self._audit("reload")
        if self.mirror is not None:
            self.mirror.forget()

    def _policy(self, settings: Settings) -> Policy:
        """What they make, with the ratios in force where they say none."""
        now = self._tracker.snapshot().policy
        ratios = Ratios(
            cpu=now.cpu_allocation_ratio,
            ram=now.ram_allocation_ratio,
            disk=now.disk_allocation_ratio,
        )
        return policy(settings, ratios)

    def _loop(self, name: str, turn: Callable[[], Rest]) -> Loop:
        return Loop(name, turn, self._clock, self._telemetry)

    def _make_standing(self, host: str) -> Standing:
        return Standing(
            self._database.registry,
            host,
            self._clock,
            self._telemetry,
            prove=self._tracker.prove,
            interval=lambda: self._settings().default.report_interval,
            changed=self._wake_mirror,
        )

    def _make_audits(self) -> Audits:
        return Audits(
            self._auditor,
            self._tracker,
            self._hypervisor,
            self._gate,
            self._clock,
            self._telemetry,
            interval=self._interval,
            returned=self._hypervisor_returned,
            accepts=lambda: self._cpu_sets.look() and self._device_specs.look(),
            opened=self._gate_opened,
            closed=self._wake_mirror,
        )

    def _make_power(self, power: CpuPower) -> Power:
        return Power(
            power,
            self._tracker.snapshot,
            self._telemetry,
            wanted=lambda: self._settings().powered_cpus,
            interval=self._interval,
        )

    def _make_keeper(self, wanted: Policy) -> Keeper:
        return Keeper(
            self._tracker,
            wanted,
            self._telemetry,
            returned=self._store_returned,
            changed=lambda: self._audit("policy"),
            fenced=self._failed,
        )

    def _make_housekeeping(self) -> Housekeeping:
        return Housekeeping(
            self._database.store,
            self._tracker.snapshot().node.uuid,
            self._clock,
            self._telemetry,
            retention=lambda: self._settings().claims.operation_retention,
            forget_moves=self._tracker.forget_moves,
        )

    def _make_mirror(self, placement: PlacementAPI) -> PlacementMirror:
        mirror = PlacementMirror(
            placement,
            self._wanted_tree,
            OwnershipFile(self._settings().default.state_path),
            self._clock,
            self._telemetry,
            refresh=lambda: self._settings().compute.resource_provider_association_refresh,
        )
        self._tracker.listen(mirror.listener)
        return mirror

    def _measure(self) -> None:
        gauge = self._telemetry.metrics.gauge
        gauge("audit_age_seconds", "Since the last good audit", lambda: self._audits.age)
        gauge("calls_in_flight", "Calls that are being served", lambda: len(self.in_flight))
        if self.mirror is not None:
            mirror = self.mirror
            gauge(
                "placement_lag_seconds",
                "For how long Placement has not shown a change",
                lambda: mirror.seconds_behind,
            )
            gauge("placement_revision", "What Placement shows", lambda: mirror.revision)

    # -- what they tell each other ----------------------------------------------------------------

    def _audit(self, cause: str) -> None:
        self._audits.because(cause)
        self._audit_loop.wake()

    def tell_decisions(self) -> None:
        """Log every step of a claim's life that has not been logged yet."""
        self._decisions.tell()

    def _tell(self) -> Rest:
        self.tell_decisions()
        return Rest(at_least=GATHER)

    def watch(self) -> None:
        """Have the hypervisor's events start audits."""
        self._hypervisor.start(self._noticed)

    def _noticed(self, word: str) -> None:
        """What the hypervisor announces. The audit may have to wait for its turn, the gate not."""
        if word == "connection":
            self._audits.lost(HypervisorUnavailable("the connection to it was lost"))
        self._audit(word)

    def _sync_placement(self) -> int:
        if self.mirror is None:
            raise PlacementError("nothing is published: [placement] auth_type is unset")
        self.mirror.sync_now(SYNC_PATIENCE, anew=True)
        if self.mirror.revision < 0:
            raise NodeNotReady("what to publish is known after the first audit")
        return self.mirror.revision

    def _topology(self) -> Topology | None:
        return self._tracker.snapshot().topology

    def _power_changed(self, state: HostState, changes: Sequence[Change]) -> None:
        if self._power.managed:
            self._power_loop.wake()

    def _gate_opened(self) -> None:
        self._power.begin()
        self._power_loop.wake()
        self._opened()
        self._wake_mirror()

    def _wake_mirror(self) -> None:
        if self.mirror is not None:
            self.mirror.wake()

    def _store_returned(self) -> None:
        self._tracker.restart_leases()
        self._audit("store")

    def _interval(self) -> float:
        seconds = self._settings().default.update_resources_interval
        return math.inf if seconds < 0 else seconds or DEFAULT_INTERVAL

    def _hypervisor_returned(self, found: HostIdentity) -> None:
        try:
            self._tenure.take(found)
        except IdentityError as error:
            self._failed(error)
            raise HypervisorUnavailable(error.message) from error

    def _wanted_tree(self) -> Tree | None:
        up = self._gate.hypervisor_up
        if up is None:
            return None
        return tree.build(self._tracker.snapshot(), self._standing.disabled, up)


def _with(wanted: Policy, recorded: Ratios) -> Policy:
    """The policy with the ratios that the record shows, so that another one is a change of it."""
    return replace(
        wanted,
        cpu_allocation_ratio=recorded.cpu or wanted.cpu_allocation_ratio,
        ram_allocation_ratio=recorded.ram or wanted.ram_allocation_ratio,
        disk_allocation_ratio=recorded.disk or wanted.disk_allocation_ratio,
    )
