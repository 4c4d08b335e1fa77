"""PoweredHypervisor: the host with every CPU that could run."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from rtagent.errors import HypervisorUnavailable
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.observation import Observation
from rtagent.model.topology import Topology
from rtagent.numa.powered import hidden, knows, powered
from rtagent.ports import HostIdentity, Hypervisor
from rtagent.service.power import Power


class PoweredHypervisor:
    """A `Hypervisor` whose CPUs that are down count as there: they are up when they are needed."""

    def __init__(
        self, hypervisor: Hypervisor, power: Power, remembered: Callable[[], Topology | None]
    ) -> None:
        """:param hypervisor: the real one, which sees of an offline CPU nothing but that it is
        offline. :param remembered: the host as it was last told of, in an earlier life maybe.
        """
        self._hypervisor, self._power, self._remembered = hypervisor, power, remembered
        self._known: Topology | None = None

    def identity(self) -> HostIdentity:
        return self._hypervisor.identity()

    def observe(self) -> Observation:
        if self._known is None:
            self._power.all_up()
        before = self._power.managed
        seen = self._hypervisor.observe()
        if seen.topology is None:
            return seen
        # What was, or has become, managed in between may have been down when it was looked at.
        managed = before | self._power.managed
        known = self._known or self._first(seen.topology, managed)
        self._known = powered(seen.topology, known, managed)
        return replace(seen, topology=self._known)

    def _first(self, seen: Topology, managed: frozenset[int]) -> Topology:
        """The host with every CPU up. libvirt 9 looks at the CPUs of its cells when it is first
        asked, and then no more: of those that were off the last life of the agent knows."""
        if not (cpus := hidden(seen, managed)):
            return seen
        last = self._remembered()
        if last is None or not knows(last, cpus):
            raise HypervisorUnavailable(
                f"it has no cell for CPUs {format_cpu_spec(cpus)}, which were off when it was"
                " started: restart its service"
            )
        return last

    def start(self, on_event: Callable[[str], None]) -> None:
        self._hypervisor.start(on_event)

    def stop(self) -> None:
        self._hypervisor.stop()
