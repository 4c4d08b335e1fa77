"""Who is up and who is down, by what is held."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from rtagent.errors import CpuPowerFailed, HypervisorUnavailable
from rtagent.model.host import restore
from rtagent.model.topology import Topology
from rtagent.service.power import Power
from rtagent.service.powered_hypervisor import PoweredHypervisor
from rtagent.virt.fake import FakeHypervisor
from tests.builders import TOPOLOGY, host
from tests.unit.model.placed import pinned_claim
from tests.unit.service.conftest import Notes

MANAGED = frozenset({2, 3, 4, 5})


class Switches:
    """A `CpuPower` of eight CPUs. :ivar stuck: CPUs that cannot be switched."""

    switches_off = True

    def __init__(self) -> None:
        self.on, self.stuck = set(range(8)), set[int]()

    def up(self, cpus: Iterable[int]) -> None:
        self.on |= set(cpus) - self.stuck
        self._check(cpus)

    def down(self, cpus: Iterable[int]) -> None:
        self.on -= set(cpus) - self.stuck
        self._check(cpus)

    def _check(self, cpus: Iterable[int]) -> None:
        for cpu in self.stuck.intersection(cpus):
            raise CpuPowerFailed(cpu=cpu, file="online", wanted="1", why="it is stuck")


class Node:
    """A node whose claims, and whose dedicated set, a test changes."""

    def __init__(self) -> None:
        self.switches, self.notes = Switches(), Notes()
        self.managed = MANAGED
        self.state = host()
        self.power = Power(
            self.switches,
            lambda: self.state,
            self.notes,
            wanted=lambda: self.managed,
            interval=lambda: 60.0,
        )

    def hold(self, *claims: object) -> None:
        self.state = restore(host(), claims, (), 1)

    @property
    def down(self) -> set[int]:
        return set(range(8)) - self.switches.on


@pytest.fixture
def node() -> Node:
    """Seen whole, with every CPU up."""
    node = Node()
    node.power.all_up()
    node.power.begin()
    return node


def test_nothing_goes_down_before_the_host_was_seen():
    node = Node()
    node.power.turn()
    assert node.down == set()


def test_what_nobody_holds_goes_down_and_what_somebody_holds_comes_up(node):
    node.power.turn()
    assert node.down == MANAGED

    node.hold(pinned_claim(3, 4, kept=(5,)))
    node.power.turn()
    assert node.down == {2, 5}

    node.hold()
    node.power.turn()
    assert node.down == MANAGED


def test_a_claims_cpus_are_up_when_it_is_settled(node):
    node.power.turn()
    claim = pinned_claim(3, 4, kept=(5,))
    node.hold(claim)

    node.power.settle(claim)

    assert node.down == {2, 5}


def test_a_claim_whose_cpu_cannot_come_up_is_not_settled(node):
    node.power.turn()
    node.switches.stuck = {4}
    with pytest.raises(CpuPowerFailed):
        node.power.settle(pinned_claim(3, 4, kept=(5,)))


def test_a_cpu_that_is_stuck_is_told_until_it_is_not(node):
    node.switches.stuck = {4}
    node.power.turn()
    assert node.notes.parts["power"].startswith("warn: CPU 4")
    assert node.down == MANAGED - {4}

    node.switches.stuck = set()
    node.power.turn()
    assert node.notes.parts["power"] == "pass"


def test_a_cpu_that_leaves_the_set_comes_up(node):
    node.power.turn()
    node.managed = frozenset({2, 3})
    node.power.turn()
    assert node.down == {2, 3}


def test_a_cpu_that_left_the_set_and_is_stuck_is_tried_until_it_is_up(node):
    node.power.turn()
    node.managed, node.switches.stuck = frozenset({2, 3}), {4}
    node.power.turn()
    assert node.power.managed == MANAGED
    assert node.notes.parts["power"].startswith("warn: CPU 4")

    node.switches.stuck = set()
    node.power.turn()
    assert node.down == node.power.managed == {2, 3}


def test_what_is_held_and_somebody_else_switched_off_comes_up_in_time(node):
    node.hold(pinned_claim(3))
    assert node.power.turn().at_most == 60.0
    node.switches.on -= {3}
    node.power.turn()
    assert node.down == MANAGED - {3}


def test_a_claim_is_settled_before_the_host_was_seen():
    """A life of the agent that ended between a claim and its CPUs left them down."""
    node = Node()
    node.switches.on -= {3}
    node.power.settle(pinned_claim(3))
    assert node.down == set()


def seen(switches: Switches) -> Topology:
    """What a hypervisor tells of the host while some CPUs are off."""
    off = frozenset(range(8)) - switches.on
    cells = [
        replace(
            cell,
            cpus=cell.cpus - off,
            offline=cell.cpus & off,
            siblings=tuple(core - off for core in cell.siblings if core - off),
        )
        for cell in TOPOLOGY.cells
    ]
    return replace(TOPOLOGY, cells=tuple(cells), cpus=TOPOLOGY.cpus - off)


def test_the_host_is_whole_however_many_of_its_cpus_are_down():
    node, inner = Node(), FakeHypervisor()
    node.switches.on -= {2, 3}  # by the agent's last life
    hypervisor = PoweredHypervisor(inner, node.power, lambda: None)
    inner.between = lambda step: setattr(inner, "topology", seen(node.switches))

    assert hypervisor.observe().topology == TOPOLOGY
    node.power.begin()
    node.power.turn()
    assert node.down == MANAGED
    assert hypervisor.observe().topology == TOPOLOGY


def test_a_cpu_that_somebody_else_switched_off_is_off():
    node, inner = Node(), FakeHypervisor()
    hypervisor = PoweredHypervisor(inner, node.power, lambda: None)
    inner.topology = TOPOLOGY
    hypervisor.observe()
    node.switches.on -= {7}
    inner.topology = seen(node.switches)
    assert hypervisor.observe().topology.cells[1].offline == {7}


def without(*cpus: int) -> Topology:
    """What a hypervisor tells that was started while these were off."""
    gone = frozenset(cpus)
    cells = [
        replace(
            cell,
            cpus=cell.cpus - gone,
            siblings=tuple(core - gone for core in cell.siblings if core - gone),
        )
        for cell in TOPOLOGY.cells
    ]
    return replace(TOPOLOGY, cells=tuple(cells))


def test_cpus_that_the_hypervisor_has_no_cell_for_are_remembered():
    node, inner = Node(), FakeHypervisor(without(2, 3, 5))
    assert PoweredHypervisor(inner, node.power, lambda: TOPOLOGY).observe().topology == TOPOLOGY


@pytest.mark.parametrize("last", [None, without(5)])
def test_cpus_that_nobody_has_a_cell_for_are_told_until_the_hypervisor_has(last):
    node, inner = Node(), FakeHypervisor(without(2, 3, 5))
    hypervisor = PoweredHypervisor(inner, node.power, lambda: last)
    with pytest.raises(HypervisorUnavailable, match=r"CPUs 2-3,5.*restart"):
        hypervisor.observe()

    inner.topology = TOPOLOGY
    assert hypervisor.observe().topology == TOPOLOGY


def test_a_hypervisor_that_was_restarted_while_cpus_were_down_changes_nothing(node):
    inner = FakeHypervisor(TOPOLOGY)
    hypervisor = PoweredHypervisor(inner, node.power, lambda: None)
    hypervisor.observe()
    node.power.turn()
    inner.topology = without(2, 3)
    assert hypervisor.observe().topology == TOPOLOGY


def test_a_host_that_cannot_be_read_is_not_known():
    node, inner = Node(), FakeHypervisor()
    inner.topology = None
    assert PoweredHypervisor(inner, node.power, lambda: None).observe().topology is None
