"""CPUs of the dedicated set are switched on and off as guests are pinned to them."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from rtagent.errors import CpuPowerFailed, HypervisorUnavailable, TooManyRequests
from rtagent.model.topology import Topology
from rtagent.service.context import Granting
from rtagent.service.power import GROUP, SETTLING, Power
from rtagent.testing.hypervisor import FakeHypervisor
from tests.support.claims import pinned_claim
from tests.support.hosts import TOPOLOGY, host, with_claims

MANAGED = frozenset({2, 3, 4, 5})


class Switches:
    """A `CpuPower` of eight CPUs.

    :ivar stuck: CPUs that cannot be switched. :ivar before: called before a change, with its CPUs.
    """

    switches_off = True

    def __init__(self) -> None:
        self.on, self.stuck = set(range(8)), set[int]()
        self.before: Callable[[Iterable[int]], object] = lambda cpus: None

    def up(self, cpus: Iterable[int]) -> None:
        self.before(cpus)
        self.on |= set(cpus) - self.stuck
        self._check(cpus)

    def down(self, cpus: Iterable[int]) -> None:
        self.before(cpus)
        self.on -= set(cpus) - self.stuck
        self._check(cpus)

    def _check(self, cpus: Iterable[int]) -> None:
        for cpu in self.stuck.intersection(cpus):
            raise CpuPowerFailed(cpu=cpu, file="online", wanted="1", why="it is stuck")


class Node:
    """A node whose claims and whose dedicated set a test changes.

    Power management begins with `begin`, as after the first audit.
    """

    def __init__(self, world) -> None:
        self.world, self.notes, self.switches = world, world.notes, Switches()
        self.state = host()
        self.power = Power(world.context, self.switches, lambda: self.state, lambda: None)
        self.manage(MANAGED)

    def manage(self, cpus: frozenset[int]) -> None:
        """Configure another dedicated set."""
        now = self.world.settings.current
        compute = replace(now.compute, cpu_dedicated_set=cpus)
        managed = replace(now.libvirt, cpu_power_management=True)
        self.world.settings.current = replace(now, compute=compute, libvirt=managed)

    def begin(self) -> "Node":
        """The host was observed with every CPU on."""
        self.power.all_up()
        self.world.bus.publish(Granting())
        return self

    def hold(self, *claims: object) -> None:
        self.state = with_claims(host(), claims)

    @property
    def down(self) -> set[int]:
        return set(range(8)) - self.switches.on


@pytest.fixture
def new_node(world) -> Node:
    """A node whose host was not observed yet."""
    return Node(world)


@pytest.fixture
def node(world) -> Node:
    """A node whose host was observed with every CPU on."""
    return Node(world).begin()


def test_no_cpu_is_switched_off_before_the_host_was_observed(new_node):
    new_node.power.turn()
    assert new_node.down == set()


def test_unused_cpus_are_switched_off_and_used_ones_on(node):
    node.power.turn()
    assert node.down == MANAGED

    node.hold(pinned_claim(3, 4, kept=(5,)))
    node.power.turn()
    assert node.down == {2, 5}

    node.hold()
    node.power.turn()
    assert node.down == MANAGED


def test_cpus_of_a_claim_are_on_when_it_is_settled(node):
    node.power.turn()
    claim = pinned_claim(3, 4, kept=(5,))
    node.hold(claim)

    node.power.settle(claim)

    assert node.down == {2, 5}


def test_claim_whose_cpu_cannot_be_switched_on_is_not_settled(node):
    node.power.turn()
    node.switches.stuck = {4}
    with pytest.raises(CpuPowerFailed):
        node.power.settle(pinned_claim(3, 4, kept=(5,)))


def test_stuck_cpu_is_reported_until_it_can_be_switched(node):
    node.switches.stuck = {4}
    node.power.turn()
    assert node.notes.texts["power"].startswith("warn: CPU 4")
    assert node.down == MANAGED - {4}

    node.switches.stuck = set()
    node.power.turn()
    assert node.notes.texts["power"] == "pass"


def test_stuck_cpu_that_left_the_set_is_tried_until_it_is_on(node):
    node.power.turn()
    node.manage(frozenset({2, 3}))
    node.switches.stuck = {4}
    node.power.turn()
    assert node.power.managed == MANAGED
    assert node.notes.texts["power"].startswith("warn: CPU 4")

    node.switches.stuck = set()
    node.power.turn()
    assert node.down == node.power.managed == {2, 3}


def test_used_cpu_that_another_program_switched_off_is_switched_on(node):
    node.hold(pinned_claim(3))
    assert node.power.turn().at_most == 60.0
    node.switches.on -= {3}
    node.power.turn()
    assert node.down == MANAGED - {3}


def test_claim_is_settled_before_the_host_was_observed(new_node):
    """An earlier process was killed after the claim, before it switched the CPUs on."""
    new_node.switches.on -= {3}
    new_node.power.settle(pinned_claim(3))
    assert new_node.down == set()


def test_claim_waits_for_no_other_cpus_than_its_own(node):
    """A turn that hangs at one CPU delays the claims of others in no way."""
    node.manage(frozenset(range(3 * GROUP)))
    node.hold(pinned_claim(0, 2 * GROUP))
    switching, go = threading.Event(), threading.Event()

    def before(cpus: Iterable[int]) -> None:
        if 1 in cpus:
            switching.set()
            assert go.wait(60)

    node.switches.before = before
    with ThreadPoolExecutor(1) as threads:
        turn = threads.submit(node.power.turn)
        assert switching.wait(60)
        node.power.settle(pinned_claim(2 * GROUP))
        assert not turn.done()
        go.set()


def test_claims_over_the_limit_are_refused_while_others_wait_for_their_cpus(node):
    go, waiting = threading.Event(), threading.Semaphore(0)

    def before(cpus: Iterable[int]) -> None:
        waiting.release()
        assert go.wait(60)

    node.manage(frozenset(range(2 * SETTLING)))
    node.switches.before = before
    with ThreadPoolExecutor(SETTLING) as threads:
        calls = [threads.submit(node.power.settle, pinned_claim(n)) for n in range(SETTLING)]
        for _ in calls:
            assert waiting.acquire(timeout=60)
        with pytest.raises(TooManyRequests):
            node.power.settle(pinned_claim(SETTLING))
        go.set()
    assert [call.exception() for call in calls] == [None] * SETTLING
    node.power.settle(pinned_claim(SETTLING))


def without(*cpus: int) -> Topology:
    """The topology that a hypervisor reports that was started while these CPUs were off."""
    gone = frozenset(cpus)

    def left(cell):
        cores = tuple(core - gone for core in cell.siblings if core - gone)
        return replace(cell, cpus=cell.cpus - gone, siblings=cores)

    return replace(TOPOLOGY, cells=tuple(map(left, TOPOLOGY.cells)))


def seen(switches: Switches) -> Topology:
    """The topology that a hypervisor reports while some CPUs are off."""
    off = TOPOLOGY.cpus - switches.on
    left = without(*off)
    pairs = zip(left.cells, TOPOLOGY.cells, strict=True)
    cells = tuple(replace(cell, offline=whole.cpus & off) for cell, whole in pairs)
    return replace(left, cells=cells, cpus=left.cpus - off)


def test_topology_is_complete_however_many_cpus_are_off(new_node):
    new_node.state = host(None)
    node, inner = new_node, FakeHypervisor()
    node.switches.on -= {2, 3}  # by an earlier process
    hypervisor = node.power.observed(inner)
    inner.between = lambda step: setattr(inner, "topology", seen(node.switches))

    assert hypervisor.observe().topology == TOPOLOGY
    node.world.bus.publish(Granting())
    node.power.turn()
    assert node.down == MANAGED
    assert hypervisor.observe().topology == TOPOLOGY


def test_unmanaged_cpu_that_another_program_switched_off_is_offline(new_node):
    new_node.state = host(None)
    node, inner = new_node, FakeHypervisor()
    hypervisor = node.power.observed(inner)
    inner.topology = TOPOLOGY
    hypervisor.observe()
    node.switches.on -= {7}
    inner.topology = seen(node.switches)
    assert hypervisor.observe().topology.cells[1].offline == {7}


def test_cells_that_the_hypervisor_does_not_know_are_taken_from_the_record(new_node):
    new_node.state = host(TOPOLOGY)  # of an earlier process
    hypervisor = new_node.power.observed(FakeHypervisor(without(2, 3, 5)))
    assert hypervisor.observe().topology == TOPOLOGY


@pytest.mark.parametrize("last", [None, without(5)])
def test_host_is_unavailable_while_the_cells_of_cpus_are_unknown(new_node, last):
    new_node.state = host(last)
    inner = FakeHypervisor(without(2, 3, 5))
    hypervisor = new_node.power.observed(inner)
    with pytest.raises(HypervisorUnavailable, match=r"CPUs 2-3,5.*restart"):
        hypervisor.observe()

    inner.topology = TOPOLOGY
    assert hypervisor.observe().topology == TOPOLOGY


def test_hypervisor_that_restarts_while_cpus_are_off_changes_nothing(node):
    inner = FakeHypervisor(TOPOLOGY)
    hypervisor = node.power.observed(inner)
    hypervisor.observe()
    node.power.turn()
    inner.topology = without(2, 3)
    assert hypervisor.observe().topology == TOPOLOGY


def test_topology_that_cannot_be_read_is_unknown(new_node):
    new_node.state = host(None)
    inner = FakeHypervisor()
    inner.topology = None
    assert new_node.power.observed(inner).observe().topology is None
