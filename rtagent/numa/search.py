"""The search for a placement: a host cell for each guest cell, near to its devices and networks.

Without devices the search is a matching of guest cells to host cells, and it never backtracks:
before it assigns a host cell to a guest cell, it checks that the other guest cells can still be
matched. With devices, the choice of one cell restricts the others. The search then continues after
placements that the devices refuse, and skips placements that the devices make impossible.

A physical network, or tunnelled networks as a whole, may belong to host cells. A guest with NUMA
cells gets at least one of these (Nova's rule). Other networks have no affinity.
"""

from collections.abc import Sequence
from typing import Protocol

from rtagent.errors import ConfigError
from rtagent.model.base import Value
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.policy import NetworkPolicy
from rtagent.model.request import NetworkMetadata
from rtagent.model.topology import Topology

#: The number of steps after which a search gives up. A step assigns a host cell to a guest cell.
STEPS = 2000


class Nearness(Protocol):
    """What must be near enough to the guest's cells, so that the placement of one guest cell
    restricts that of the others. Pure.
    """

    def possible(self, cells: frozenset[int]) -> bool:
        """Return whether a guest on these host cells, or on some of them, may be near enough.

        If it is true for a set of cells, it must be true for every superset.
        """

    def refusal(self, cells: tuple[int, ...]) -> tuple[Reason, ...]:
        """Return why a guest is not near enough; empty if it is.

        :param cells: the host cell of each guest cell.
        """


class RequestedDevices(Nearness, Protocol):
    """The devices that one guest requests on one host, possibly none."""

    def weight(self, cell: int) -> int:
        """Return the weight of a host cell; cells of a low weight are tried first.

        Cells with devices that the guest requests have a low weight. For a guest that requests no
        devices, cells without devices have a low weight.
        """


class CellSearch:
    """The search for the first placement, in the order of preference, that the devices accept.

    :param rows: the host cells that each guest cell fits, the preferred one first.
    :ivar gave_up: the search reached its limit of steps, and did not try all placements.
    """

    def __init__(
        self, rows: Sequence[Sequence[int]], devices: Nearness | None = None, steps: int = STEPS
    ) -> None:
        self._rows, self._devices, self._left = rows, devices, steps
        self._open = [frozenset[int]().union(*rows[place:]) for place in range(len(rows) + 1)]
        self._dead: set[frozenset[int]] = set()
        self._possible: dict[frozenset[int], bool] = {}
        self._completes: dict[tuple[int, frozenset[int]], bool] = {}
        self._refused_in_order = 0
        self.gave_up = False

    def placement(self) -> tuple[int, ...] | None:
        """Return a host cell for each guest cell; None: no placement was found."""
        return self._continued(()) if self._completable(0, frozenset()) else None

    def _continued(self, chosen: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the first placement that begins with these host cells."""
        used = frozenset(chosen)
        if (
            used in self._dead
            or self._out_of_steps()
            or (self._prunes(chosen) and not self._devices_possible(used | self._open[len(chosen)]))
        ):
            return None
        if len(chosen) == len(self._rows):
            return chosen if self._accepted(chosen) else None
        refused = self._refused_in_order
        for cell in self._rows[len(chosen)]:
            if cell not in used and self._completable(len(chosen) + 1, used | {cell}):
                placement = self._continued((*chosen, cell))
                if placement is not None:
                    return placement
        if refused == self._refused_in_order and not self.gave_up:
            # No complete placement was refused because of its order, so another order of these
            # cells fails as well.
            self._dead.add(used)
        return None

    def _prunes(self, chosen: tuple[int, ...]) -> bool:
        """Return whether to ask for the devices of all cells that are left. For a guest of one
        cell, each of them is asked for by itself next.
        """
        return bool(chosen) or len(self._rows) > 1

    def _out_of_steps(self) -> bool:
        self.gave_up = self.gave_up or self._left == 0
        self._left -= 1
        return self.gave_up

    def _devices_possible(self, cells: frozenset[int]) -> bool:
        if self._devices is None:
            return True
        if cells not in self._possible:
            self._possible[cells] = self._devices.possible(cells)
        return self._possible[cells]

    def _accepted(self, chosen: tuple[int, ...]) -> bool:
        if self._devices is None or not self._devices.refusal(chosen):
            return True
        self._refused_in_order += 1
        return False

    def _completable(self, place: int, used: frozenset[int]) -> bool:
        """Return whether the guest cells from `place` on can be matched to other host cells."""
        key = (place, used)
        if key not in self._completes:
            rest = [[cell for cell in row if cell not in used] for row in self._rows[place:]]
            self._completes[key] = not deficient(rest)
        return self._completes[key]


def deficient(rows: Sequence[Sequence[int]]) -> frozenset[int]:
    """Return guest cells (by number) that together fit fewer host cells than there are guest cells
    among them.

    :returns: empty if each guest cell can have its own host cell.
    """
    owner: dict[int, int] = {}
    for place in range(len(rows)):
        seen: set[int] = set()
        if not _augment(rows, place, owner, seen):
            return frozenset({place, *(owner[cell] for cell in seen)})
    return frozenset()


def _augment(
    rows: Sequence[Sequence[int]], place: int, owner: dict[int, int], seen: set[int]
) -> bool:
    """Match a guest cell to a host cell, and rematch other guest cells if necessary."""
    for cell in rows[place]:
        if cell not in seen:
            seen.add(cell)
            if cell not in owner or _augment(rows, owner[cell], owner, seen):
                owner[cell] = place
                return True
    return False


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
    """The devices of a guest together with its networks. Implements `Nearness`.

    :param networks: those with an affinity.
    """

    def __init__(self, networks: Sequence[Network], devices: Nearness | None) -> None:
        self._networks, self._devices = networks, devices

    def possible(self, cells: frozenset[int]) -> bool:
        """Return whether these host cells, or some of them, are near to every network."""
        if any(network.cells.isdisjoint(cells) for network in self._networks):
            return False
        return self._devices is None or self._devices.possible(cells)

    def refusal(self, cells: tuple[int, ...]) -> tuple[Reason, ...]:
        """Return why these host cells are not near to every network and device."""
        far = tuple(net.refusal for net in self._networks if net.cells.isdisjoint(cells))
        return far if self._devices is None else (*far, *self._devices.refusal(cells))


def check_networks(policy: NetworkPolicy, topology: Topology) -> None:
    """Check the affinity of networks against this host.

    :raises ConfigError: it names a cell that the host does not have.
    """
    present = frozenset(cell.id for cell in topology.cells)
    groups = {f"neutron_physnet_{name}": cells for name, cells in policy.physnets.items()}
    for group, cells in {**groups, "neutron_tunnel": policy.tunnels}.items():
        if not cells <= present:
            rule = (
                f"this host has no NUMA cells {format_cpu_spec(cells - present)},"
                f" its cells are {format_cpu_spec(present) or 'none'}"
            )
            value = format_cpu_spec(cells)
            raise ConfigError(group=group, option="numa_nodes", value=value, rule=rule)
