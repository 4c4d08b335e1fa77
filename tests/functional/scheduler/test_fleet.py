"""Two schedulers and many callers on a nearly full fleet: nothing is granted twice.

The nodes are real: trackers and auditors, on fake hypervisors and stores in memory. Their reports
flow to every scheduler as the documents of the protocol.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random

from rtagent.claims import activate_claim, instance_claim, release_claim
from rtagent.conf.scheduler import FilterOptions, SchedulerOptions
from rtagent.embedded import SystemClock
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.model.claim import ACTIVE, Claim
from rtagent.model.device import Device
from rtagent.model.host_report import HostReport, InstanceInfo
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest, Flavor, Instance
from rtagent.model.server import RequestSpec, Selection
from rtagent.model.units import MB_IN_GB
from rtagent.ports import NullReporter
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.report_documents import (
    InstanceMessage,
    instances_from,
    instances_text,
    report_document,
    report_from,
)
from rtagent.scheduler.select import Scheduler
from rtagent.scheduler.tracked_host import Wanted
from rtagent.scheduler.weighing import HostWeighers
from tests.support.agents import Agent
from tests.support.hosts import PINNED, call, uid
from tests.support.pci_hosts import GPU_0, GPU_1, gpu
from tests.support.reporting_agents import ReportingAgent

#: The filters of the schedulers: the default ones, and those that fit.
FILTERS = (*FilterOptions().enabled_filters, "NUMATopologyFilter", "PciPassthroughFilter")


class FleetClock(SystemClock):
    """The machine's clock, which a test can put forward.

    :ivar ahead: seconds.
    """

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class FleetNode(Agent):
    """One host, and what it has reported."""

    def __init__(self, number: int, *devices: Device) -> None:
        super().__init__(number, clock=SystemClock())
        self.world.plug(*devices)
        self.audit()
        self.agent = ReportingAgent(self.node.host, self.state)
        self.reported: NodeState | None = None

    def create(self, owner: str, flavor: Flavor, selection: Selection) -> Claim:
        """Do what a conductor does on a selected host: claim, activate, start the domain."""
        build = BuildRequest(instance=Instance(uuid=owner, flavor=flavor), limits=selection.limits)
        asked = call("instance_claim", selection.operation_id)
        claim = self.tracker.create(instance_claim, asked, build)
        claim = self.tracker.change(activate_claim, call("activate_claim"), claim.uuid)
        self.start_domain(claim)
        return claim

    def delete(self, claim: Claim) -> None:
        """Stop the domain and release its claim."""
        self.world.destroy(claim.owner_id)
        self.tracker.execute(release_claim, call("release_claim"), claim.uuid)


class FleetScheduler:
    """A scheduler with a view of its own."""

    def __init__(self, number: int, clock: FleetClock) -> None:
        options = FilterOptions(enabled_filters=FILTERS)
        self.wanted: list[Wanted] = []
        self.manager = HostManager(clock, NullReporter(), self.wanted.append)
        self.scheduler = Scheduler(
            self.manager,
            HostFilters.load(options),
            HostWeighers.load(options, Random(number)),
            SchedulerOptions(),
            None,
            clock,
            NullReporter(),
        )

    # -- the messages of agents, as documents that were JSON ---------------------------------------

    def update_host_state(self, report: HostReport) -> None:
        document = json.loads(json.dumps(report_document(report)))
        self.manager.update_host_state(report_from(document))

    def change_instances(
        self, message: InstanceMessage, infos: Sequence[InstanceInfo] | None = None
    ) -> None:
        decoded = None if infos is None else instances_from("m", instances_text(infos))
        self.manager.change_instances(message, decoded)


class Fleet:
    """Nodes and schedulers.

    :ivar nodes: by host name. :ivar clock: of the schedulers.
    """

    def __init__(self, nodes: Sequence[FleetNode], schedulers: int) -> None:
        self.nodes: Mapping[str, FleetNode] = {each.node.host: each for each in nodes}
        self.clock = FleetClock()
        self.schedulers = [FleetScheduler(number, self.clock) for number in range(schedulers)]
        self._publishing = threading.Lock()
        self.publish()

    def publish(self) -> None:
        """Deliver the reports of all nodes that have changed to all schedulers."""
        with self._publishing:
            for node in self.nodes.values():
                state = node.state
                if state is not node.reported:
                    node.reported = node.agent.state = state
                    for message in node.agent.messages():
                        for scheduler in self.schedulers:
                            message(scheduler)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Publish all the time, on a thread of its own, for the length of the block."""
        ended = threading.Event()

        def publish() -> None:
            while not ended.wait(0.01):
                self.publish()

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.publish()


def request(flavor: Flavor) -> RequestSpec:
    return RequestSpec(flavor=flavor)


PLAIN = Flavor(vcpus=1, memory_mb=3 * 1024, root_gb=5)
PINNED_TWO = Flavor(vcpus=2, memory_mb=1024, root_gb=5, extra_specs=PINNED)
WITH_GPU = Flavor(vcpus=1, memory_mb=512, extra_specs={**PINNED, "pci_passthrough:alias": "gpu:1"})
FLAVORS = (PLAIN, PINNED_TWO, WITH_GPU)
HOSTS, CALLERS, CALLS = 50, 16, 15


def fleet_of(number: int) -> Fleet:
    nodes = [FleetNode(n, gpu(GPU_0, 0), gpu(GPU_1, 1)) for n in range(number)]
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
                    claim = self._fleet.nodes[selection.host].create(owner, flavor, selection)
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
        assert owner in node.world.observe().domains
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
        assert node.audit().good
    # A claim that ended before a report named it is assumed until its time has passed.
    fleet.clock.ahead += SchedulerOptions().assume_timeout + 1
    fleet.publish()
    for scheduler in fleet.schedulers:
        check_view(scheduler, fleet)


def test_refusal_by_a_race_is_counted_and_an_alternate_is_taken():
    nodes = [FleetNode(number, gpu(GPU_0, 0)) for number in (0, 1)]
    fleet = Fleet(nodes, schedulers=2)
    first, second = Caller(fleet, 0), Caller(fleet, 1)
    first.build(WITH_GPU)
    second.build(WITH_GPU)  # its scheduler has not heard of the first build
    assert first.counts == Counter(selections=1, tried=1, built=1)
    assert second.counts == Counter(selections=1, tried=2, refused=1, built=1)
    fleet.publish()
    second.build(WITH_GPU)
    assert second.counts["no host"] == 1
