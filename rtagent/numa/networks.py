"""The NUMA affinity of a guest's networks: which host cells the guest must be on.

A physical network, or tunnelled networks as a whole, may belong to host cells. A guest with NUMA
cells gets at least one of these (Nova's rule). Other networks have no affinity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rtagent.errors import ConfigError
from rtagent.model.base import Value
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.policy import NetworkPolicy
from rtagent.model.request import NetworkMetadata
from rtagent.model.topology import Topology
from rtagent.numa.search import Devices


class Network(Value, frozen=True, kw_only=True):
    """Networks with an affinity. :ivar name: for refusals. :ivar cells: ids of host cells."""

    name: str
    cells: frozenset[int]

    @property
    def refusal(self) -> Reason:
        """The reason of a refusal: no cell of the guest is on one of these host cells."""
        return Reason(
            code=ReasonCode.INSUFFICIENT,
            resource=f"NUMA affinity of {self.name}",
            where=f"cells {format_cpu_spec(self.cells)}",
            requested=1,
            available=0,
            unit="guest cells",
        )


def networks_with_affinity(metadata: NetworkMetadata, policy: NetworkPolicy) -> tuple[Network, ...]:
    """Return those of a guest's networks that have an affinity on this host."""
    physnets = tuple(
        Network(name=f"physical network {name}", cells=policy.physnets[name])
        for name in sorted(frozenset(metadata.physnets))
        if name in policy.physnets
    )
    if not metadata.tunneled or not policy.tunnels:
        return physnets
    return (*physnets, Network(name="tunnelled networks", cells=policy.tunnels))


class NearNetworks:
    """The devices of a guest together with its networks. Implements `Devices`.

    :param networks: those with an affinity.
    """

    def __init__(self, networks: Sequence[Network], devices: Devices | None) -> None:
        self._networks, self._devices = networks, devices

    def weight(self, cell: int) -> int:
        """Return the weight that the devices give to a host cell."""
        return self._devices.weight(cell) if self._devices is not None else 0

    def possible(self, cells: frozenset[int]) -> bool:
        """Return whether these host cells, or some of them, are near to every network."""
        if any(network.cells.isdisjoint(cells) for network in self._networks):
            return False
        return self._devices is None or self._devices.possible(cells)

    def refusal(self, cells: tuple[int, ...]) -> tuple[Reason, ...]:
        """Return why these host cells are not near to every network and device."""
        far = tuple(each.refusal for each in self._networks if each.cells.isdisjoint(cells))
        return far if self._devices is None else (*far, *self._devices.refusal(cells))


def check(policy: NetworkPolicy, topology: Topology) -> None:
    """Check the affinity of networks against this host.

    :raises ConfigError: it names a cell that the host does not have.
    """
    for error in _absent_cells(policy, topology):
        raise error


def _absent_cells(policy: NetworkPolicy, topology: Topology) -> Iterator[ConfigError]:
    present = frozenset(cell.id for cell in topology.cells)
    groups = {f"neutron_physnet_{name}": cells for name, cells in policy.physnets.items()}
    for group, cells in {**groups, "neutron_tunnel": policy.tunnels}.items():
        if not cells <= present:
            rule = (
                f"this host has no NUMA cells {format_cpu_spec(cells - present)},"
                f" its cells are {format_cpu_spec(present) or 'none'}"
            )
            value = format_cpu_spec(cells)
            yield ConfigError(group=group, option="numa_nodes", value=value, rule=rule)
