"""Two schedulers and many callers on a nearly full fleet: nothing is granted twice."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random

from rtagent.conf.scheduler import SchedulerOptions
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.model.claim import ACTIVE, Claim
from rtagent.model.policy import PciPolicy, Policy
from rtagent.model.request import Flavor
from rtagent.model.units import MB_IN_GB
from rtagent.scheduler.errors import NoValidHost
from tests.functional.scheduler.fleets import Fleet, FleetNode, FleetScheduler, request
from tests.support.hosts import PINNED, PINNING, uid
from tests.support.pci_hosts import ALIASES, GPU_0, GPU_1, SPECS, gpu

POLICY = Policy(
    numa=PINNING,
    pci=PciPolicy(specs=SPECS, aliases=ALIASES),
    cpu_allocation_ratio=Policy().cpu_allocation_ratio * 4,
)
PLAIN = Flavor(vcpus=1, memory_mb=3 * 1024, root_gb=5)
PINNED_TWO = Flavor(vcpus=2, memory_mb=1024, root_gb=5, extra_specs=PINNED)
WITH_GPU = Flavor(
    vcpus=1,
    memory_mb=512,
    extra_specs={**PINNED, "pci_passthrough:alias": "gpu:1"},
)
FLAVORS = (PLAIN, PINNED_TWO, WITH_GPU)
HOSTS, CALLERS, CALLS = 50, 16, 15


def fleet_of(number: int) -> Fleet:
    nodes = [FleetNode(f"h{n}", POLICY, gpu(GPU_0, 0), gpu(GPU_1, 1)) for n in range(number)]
    return Fleet(nodes, schedulers=2)


class Caller:
    """A conductor: builds servers, and deletes some of them.

    :ivar running: claims of the builds that were acknowledged and not deleted, by host.
    :ivar counts: what became of its calls.
    """

    def __init__(self, fleet: Fleet, number: int) -> None:
        self._fleet, self._random = fleet, Random(number)
        self._scheduler = fleet.schedulers[number % len(fleet.schedulers)]
        self.running: dict[str, tuple[str, Claim]] = {}
        self.counts: Counter[str] = Counter()

    def work(self) -> None:
        for _ in range(CALLS):
            if self.running and self._random.random() < 0.3:
                owner = self._random.choice(sorted(self.running))
                host, claim = self.running.pop(owner)
                self._fleet.nodes[host].delete(claim)
                self.counts["deleted"] += 1
            self.build(self._random.choice(FLAVORS))

    def build(self, flavor: Flavor) -> None:
        """Build a server on the selected host, on an alternate, or on those of a second call."""
        owner = uid()
        for _ in range(2):
            self.counts["selections"] += 1
            try:
                (found,) = self._scheduler.scheduler.select_destinations(
                    request(flavor), [owner], alternates=True
                )
            except NoValidHost:
                self.counts["no host"] += 1
                return
            for selection in (found.selected, *found.alternates):
                self.counts["tried"] += 1
                try:
                    claim = self._fleet.nodes[selection.host].build(owner, flavor, selection)
                except ComputeResourcesUnavailable as refused:
                    assert refused.kwargs["reasons"]
                    self._scheduler.scheduler.forget_claim(selection.operation_id)
                    self.counts["refused"] += 1
                else:
                    self.running[owner] = (selection.host, claim)
                    self.counts["built"] += 1
                    return


def fill(fleet: Fleet) -> None:
    """Build until a few places of each flavor are left."""
    caller = Caller(fleet, 0)
    gpus, pairs, plain = 2 * HOSTS - 12, HOSTS - 10, 2 * HOSTS
    for flavor, number in ((WITH_GPU, gpus), (PINNED_TWO, pairs), (PLAIN, plain)):
        for _ in range(number):
            caller.build(flavor)
            fleet.publish()
    assert caller.counts["refused"] == caller.counts["no host"] == 0


def check_host(node: FleetNode, running: dict[str, Claim]) -> None:
    """Check that a host has what was acknowledged, and nothing twice."""
    state = node.state
    state.check()
    assert node.stored.claims == state.claims
    for owner, claim in running.items():
        assert state.claims[claim.uuid].state == ACTIVE
        assert owner in node.hypervisor.observe().domains
    cpus = [cpu for c in state.claims.values() if c.numa_topology for cpu in c.numa_topology.taken]
    devices = [device.address for claim in state.claims.values() for device in claim.pci]
    assert len(cpus) == len(set(cpus)), "a CPU has two owners"
    assert len(devices) == len(set(devices)), "a device has two owners"


def check_view(scheduler: FleetScheduler, fleet: Fleet) -> None:
    """Check that a scheduler sees what the agents have, and assumes nothing."""
    seen = {each.host: each for each in scheduler.manager.get_all_host_states()}
    assert seen.keys() == fleet.nodes.keys()
    for name, node in fleet.nodes.items():
        usage, host = node.state.usage, seen[name]
        assert host.base == node.state.position
        assert host.replica.usage == usage
        assert set(host.instances) == set(node.state.owners)
        assert host.disk_mb_used // MB_IN_GB == usage.disk_mb // MB_IN_GB


def test_sixteen_callers_of_two_schedulers_on_fifty_nearly_full_hosts():
    fleet = fleet_of(HOSTS)
    fill(fleet)
    before = {n: dict(node.state.claims) for n, node in fleet.nodes.items()}
    callers = [Caller(fleet, number) for number in range(CALLERS)]
    with fleet.publishing(), ThreadPoolExecutor(CALLERS) as threads:
        for done in [threads.submit(caller.work) for caller in callers]:
            done.result()

    counts = sum((caller.counts for caller in callers), Counter())
    assert counts["tried"] == counts["built"] + counts["refused"]
    assert 0 < counts["built"] < CALLERS * CALLS, "the fleet was not nearly full"
    running: dict[str, dict[str, Claim]] = {name: {} for name in fleet.nodes}
    for caller in callers:
        for owner, (host, claim) in caller.running.items():
            running[host][owner] = claim
    for name, node in fleet.nodes.items():
        check_host(node, running[name])
        mine = {claim.uuid for claim in running[name].values()}
        assert set(node.state.claims) == set(before[name]) | mine
        assert node.auditor.run("test").good
    # A claim that ended before a report named it is assumed until its time has passed.
    fleet.clock.ahead += SchedulerOptions().assume_timeout + 1
    fleet.publish()
    for scheduler in fleet.schedulers:
        check_view(scheduler, fleet)


def test_refusal_by_a_race_is_counted_and_an_alternate_is_taken():
    nodes = [FleetNode(name, POLICY, gpu(GPU_0, 0)) for name in ("h0", "h1")]
    fleet = Fleet(nodes, schedulers=2)
    first, second = Caller(fleet, 0), Caller(fleet, 1)
    first.build(WITH_GPU)
    second.build(WITH_GPU)  # its scheduler has not heard of the first build
    assert first.counts == Counter(selections=1, tried=1, built=1)
    assert second.counts == Counter(selections=1, tried=2, refused=1, built=1)
    fleet.publish()
    second.build(WITH_GPU)
    assert second.counts["no host"] == 1
