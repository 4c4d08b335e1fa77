"""The search for a placement: complete, in order of preference, bounded, and near to networks."""

import re

import pytest
from msgspec.structs import replace

from rtagent.errors import ConfigError
from rtagent.model.policy import NetworkPolicy
from rtagent.model.request import NetworkMetadata
from rtagent.numa.search import CellSearch, check_networks
from tests.support.numa_hosts import THREE_CELLS, TWO_CELLS, fit_guest, host, pinned_usage, required


class Accepting:
    """Devices that accept these placements, in their order, and rule out nothing beforehand."""

    def __init__(self, *accepted):
        self.accepted = accepted

    def possible(self, cells):
        return True

    def refusal(self, cells):
        return () if cells in self.accepted else ("no",)


class NeedingAll(Accepting):
    """Devices that accept placements on all of these cells, in any order."""

    def possible(self, cells):
        return cells.issuperset(self.accepted)

    def refusal(self, cells):
        return () if self.possible(frozenset(cells)) else ("no",)


def test_search_without_devices_never_backtracks():
    """Each guest cell prefers the only host cell that the next one fits."""
    rows = [[1, 0], [2, 1], [3, 2], [4, 3], [4]]
    search = CellSearch(rows, steps=len(rows) + 1)
    assert search.placement() == (0, 1, 2, 3, 4)
    assert not search.gave_up


def test_set_of_cells_that_failed_is_not_tried_in_another_order():
    """The last two guest cells fit two of the three host cells that the devices need, whatever the
    order of the first four: 24 orders of one set."""
    rows = [[1, 2, 3, 6]] * 4 + [[4, 0], [5, 0]]
    search = CellSearch(rows, NeedingAll(0, 4, 5), steps=30)
    assert (search.placement(), search.gave_up) == (None, False)


#: Network foo is near to cell 1, bar to cells 1 and 2, tunnels to cell 2.
POLICY = NetworkPolicy(
    physnets={"foo": frozenset({1}), "bar": frozenset({1, 2})}, tunnels=frozenset({2})
)


def on(*physnets, tunneled=False, cells=1, **specs):
    guest = required(cells, 1024 * cells, numa_nodes=str(cells), **specs)
    return replace(guest, networks=NetworkMetadata(physnets=physnets, tunneled=tunneled))


def test_refusal_names_network_and_cells_and_why_these_do_not_fit():
    guest = on("foo", "other", cells=1, cpu_policy="dedicated")
    where = host(THREE_CELLS, "0-5", networks=POLICY, usage=pinned_usage("2-3"))
    assert sorted(map(str, fit_guest(guest, where).reasons)) == [
        "NUMA affinity of physical network foo: 1 guest cells requested at cells 1, 0 available",
        "PCPU: 1 CPUs requested at cell 1, 0 available",
    ]


def test_refusal_names_networks_that_one_cell_cannot_be_near_to():
    answer = fit_guest(on("foo", tunneled=True), host(THREE_CELLS, networks=POLICY))
    assert sorted(map(str, answer.reasons)) == [
        "NUMA affinity of physical network foo: 1 guest cells requested at cells 1, 0 available",
        "NUMA affinity of tunnelled networks: 1 guest cells requested at cells 2, 0 available",
    ]


def test_cells_that_the_host_does_not_have_are_refused():
    physnets = NetworkPolicy(physnets={"foo": frozenset({0, 2})})
    for policy, mistake in (
        (physnets, "[neutron_physnet_foo] numa_nodes = 0,2: this host has no NUMA cells 2"),
        (NetworkPolicy(tunnels=frozenset({9})), "[neutron_tunnel] numa_nodes = 9: this host has"),
    ):
        with pytest.raises(ConfigError, match=re.escape(mistake)):
            check_networks(policy, TWO_CELLS)


def test_cells_of_the_host_are_accepted():
    check_networks(POLICY, THREE_CELLS)
    check_networks(NetworkPolicy(), replace(TWO_CELLS, cells=()))
