"""Fleets of nodes in one process, and schedulers that hear of them.

The nodes are real: trackers and auditors, on fake hypervisors and stores in memory. Their reports
flow to every scheduler as the documents of the protocol.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from rtagent.audit import Auditor
from rtagent.claims import activate_claim, instance_claim, release_claim
from rtagent.conf.filter_scheduler import FilterOptions
from rtagent.conf.scheduler import SchedulerOptions
from rtagent.embedded import SystemClock
from rtagent.lifecycle.moves.steps import claimed_usage
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.host_report import HostReport, InstanceInfo
from rtagent.model.node import NodeRecord, Writer
from rtagent.model.node_state import NodeState, restore
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest, Flavor, Instance
from rtagent.model.server import RequestSpec, Selection
from rtagent.ports import NullReporter
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
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryStore
from rtagent.tracker import ResourceTracker
from tests.support.host_states import node_named
from tests.support.hosts import TOPOLOGY, call
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


class FleetNode:
    """One host: its hypervisor, its tracker, and what it has reported."""

    def __init__(self, name: str, policy: Policy, *devices: Any) -> None:
        self.node, self._policy = node_named(name), policy
        self.store = MemoryStore()
        self.hypervisor = FakeHypervisor(TOPOLOGY, hostname=self.node.hypervisor_hostname)
        self.hypervisor.plug(*devices)
        clock = SystemClock()
        stored = self.store.enroll(self.node.uuid, self.node.hypervisor_hostname, self._record)
        self.tracker = ResourceTracker(self.store, clock, restore(stored, policy))
        self.auditor = Auditor(self.tracker, self.hypervisor, clock)
        assert self.auditor.run("start").good
        self.agent = ReportingAgent(name, self.state)
        self.reported: NodeState | None = None

    def _record(self, records: Sequence[NodeRecord]) -> NodeRecord:
        writer = Writer(machine_id=self.node.host, boot_id="b", state_path="/s")
        return NodeRecord(node=self.node, epoch=1, revision=0, writer=writer)

    @property
    def state(self) -> NodeState:
        return self.tracker.snapshot()

    @property
    def stored(self) -> NodeState:
        """The state that a restart would find."""
        return restore(self.store.load(self.node.uuid), self._policy)

    def build(self, owner: str, flavor: Flavor, selection: Selection) -> Claim:
        """Do what a conductor does on a selected host: claim, activate, start the domain."""
        build = BuildRequest(instance=Instance(uuid=owner, flavor=flavor), limits=selection.limits)
        asked = Call(method="instance_claim", operation_id=selection.operation_id, digest="d")
        claim = self.tracker.create(instance_claim, asked, build)
        claim = self.tracker.change(activate_claim, call("activate_claim"), claim.uuid)
        usage = claimed_usage(claim)
        self.hypervisor.start_domain(owner, usage.vcpus, usage.memory_mb, occupancy=usage.occupancy)
        return claim

    def delete(self, claim: Claim) -> None:
        """Stop the domain and release its claim."""
        self.hypervisor.destroy(claim.owner_id)
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
