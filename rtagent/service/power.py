"""Power: switch the CPUs of the dedicated set on while a guest is pinned to them, else off.

Only with ``[libvirt] cpu_power_management``. The strategies are in `rtagent.virt.power`.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from msgspec.structs import replace

from rtagent.bus import StatePublished
from rtagent.errors import CpuPowerFailed, HypervisorUnavailable, TooManyRequests
from rtagent.model.claim import Claim
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.node_state import NodeState
from rtagent.model.observation import Observation
from rtagent.model.topology import Topology
from rtagent.numa.host_cpus import cells_contain, cpus_without_cell, with_managed_cpus
from rtagent.ports import CpuPower, Hypervisor, WrappedHypervisor
from rtagent.service.context import Granting, NodeContext, Reloaded
from rtagent.service.loop import Rest

PART = "power"
#: How many calls may switch CPUs on at once. Linux switches one CPU after the other, in some ten
#: milliseconds each; further calls would only keep the RPC server's threads from other calls.
SETTLING = 24
#: How many CPUs a turn switches before a claim that waits for one of them is served.
GROUP = 16


class Power:
    """The turns of the thread ``power``. Thread-safe.

    A CPU is switched off only if no guest is pinned to it in the current state. The CPUs of a claim
    are switched on before the claim is answered.

    Each CPU has a lock, under which it is switched. So no claim waits for a whole turn, or for the
    CPUs of another claim.
    """

    def __init__(
        self,
        context: NodeContext,
        power: CpuPower,
        snapshot: Callable[[], NodeState],
        wake: Callable[[], None],
    ) -> None:
        """:param snapshot: returns the last published state, from the first audit and turn on.
        :param wake: runs the next turn soon.
        """
        self._context, self._power, self._snapshot = context, power, snapshot
        self._reporter = context.reporter.named(__name__)
        self._wake = wake
        self._locks: dict[int, threading.Lock] = {}
        self._settling = threading.BoundedSemaphore(SETTLING)
        self._last = frozenset[int]()
        self._begun = False
        bus = context.bus
        bus.subscribe(StatePublished, lambda _: wake() if self.managed else None)
        bus.subscribe(Granting, self._begin)
        bus.subscribe(Reloaded, lambda _: wake())

    def observed(self, hypervisor: Hypervisor) -> Hypervisor:
        """Return the hypervisor for audits, which includes every managed CPU."""
        return PoweredHypervisor(hypervisor, self) if self._power.switches_off else hypervisor

    @property
    def managed(self) -> frozenset[int]:
        """The CPUs that may be off. A CPU that left the configuration is included until
        it is on.
        """
        return self._last | self._context.settings.current.powered_cpus

    def known_topology(self) -> Topology | None:
        """The recorded topology, possibly from an earlier process; None if there is none."""
        return self._snapshot().topology

    def all_up(self) -> None:
        """Switch every managed CPU on, before the first observation of the host.

        A CPU that cannot be switched on shows as offline in the observation.
        """
        self._switch(self.managed, frozenset)

    def _begin(self, _: Granting) -> None:
        """Allow CPUs to be switched off, because the host was observed with all CPUs on."""
        self._begun = True
        self._wake()

    def turn(self) -> Rest:
        """Switch every managed CPU on or off, depending on its use. A CPU that has left the
        configuration is switched on.

        The turn is repeated at the interval of the audits, because others may switch CPUs, too.
        """
        if self._begun:
            wanted = self._context.settings.current.powered_cpus
            self._last |= wanted
            if self._switch(self._last, lambda: wanted - self._snapshot().usage.numa.pinned.keys()):
                self._last = wanted
        return Rest(at_most=self._context.settings.current.default.audit_interval)

    def settle(self, claim: Claim) -> None:
        """Switch the CPUs of a claim on, before it is answered.

        :raises CpuPowerFailed: TooManyRequests: the domain must not be started yet.
        """
        if (assignment := claim.numa_topology) is None:
            return
        if not (cpus := self.managed & assignment.taken - assignment.kept):
            return
        if not self._settling.acquire(blocking=False):
            raise TooManyRequests(
                f"{SETTLING} calls wait for host CPUs to be switched on, which is the limit. The"
                " claim is kept, but its CPUs are not on: repeat the call before the domain is"
                " started",
                limit=SETTLING,
            )
        try:
            with self._locked(cpus):
                self._power.up(cpus)
        finally:
            self._settling.release()

    def _switch(self, cpus: frozenset[int], unused: Callable[[], frozenset[int]]) -> bool:
        """Switch the unused ones of these CPUs off, and the others on. Make all changes, even if
        one fails, and report the first failure. Return whether all succeeded.

        :param unused: returns the unused CPUs. It is called with the locks of the next group held,
            so that no claim gets one of its CPUs meanwhile.
        """
        failed = ""
        for group in _groups(cpus):
            with self._locked(group):
                off = unused()
                up, down = [c for c in group if c not in off], [c for c in group if c in off]
                for change, chosen in ((self._power.up, up), (self._power.down, down)):
                    try:
                        change(chosen)
                    except CpuPowerFailed as error:
                        failed = failed or error.message
        self._reporter.health(PART, "warn" if failed else "pass", failed)
        return not failed

    @contextmanager
    def _locked(self, cpus: Iterable[int]) -> Iterator[None]:
        """Hold the locks of these CPUs during the block, which ends in bounded time."""
        with ExitStack() as held:
            for cpu in sorted(cpus):  # in one order, against deadlocks
                held.enter_context(self._locks.setdefault(cpu, threading.Lock()))
            yield


def _groups(cpus: frozenset[int]) -> Iterator[list[int]]:
    """The CPUs in ascending order, in groups."""
    ordered = sorted(cpus)
    return (ordered[at : at + GROUP] for at in range(0, len(ordered), GROUP))


class PoweredHypervisor(WrappedHypervisor):
    """A `Hypervisor` on which managed CPUs that are off count as online.

    They are switched on before they are needed.
    """

    def __init__(self, hypervisor: Hypervisor, power: Power) -> None:
        """:param hypervisor: the real hypervisor, which reports no details of offline CPUs."""
        super().__init__(hypervisor)
        self._power = power
        self._known: Topology | None = None

    def observe(self) -> Observation:
        if self._known is None:
            self._power.all_up()
        before = self._power.managed
        seen = self._hypervisor.observe()
        if seen.topology is None:
            return seen
        # A CPU that was managed before, or is managed since then, may have been off when it was
        # observed.
        managed = before | self._power.managed
        known = self._known or self._first(seen.topology, managed)
        self._known = with_managed_cpus(seen.topology, known, managed)
        return replace(seen, topology=self._known)

    def _first(self, seen: Topology, managed: frozenset[int]) -> Topology:
        """The topology with every CPU online.

        libvirt 9 reads the CPUs of its cells at the first request only. CPUs that were off at that
        time are known only from the record of an earlier process.
        """
        if not (cpus := cpus_without_cell(seen, managed)):
            return seen
        last = self._power.known_topology()
        if last is None or not cells_contain(last, cpus):
            raise HypervisorUnavailable(
                f"it has no cell for CPUs {format_cpu_spec(cpus)}, which were off when it was"
                " started: restart its service"
            )
        return last
