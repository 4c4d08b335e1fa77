"""The room of a fleet is exact: builds that are selected and claimed one after another succeed as
often as was counted, on the hosts of which it was counted.
"""

import json
import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from rtagent import claims
from rtagent.conf.scheduler import FilterOptions, SchedulerOptions
from rtagent.errors import RequestError
from rtagent.model.decision import Granted
from rtagent.model.host_report import ServiceState
from rtagent.model.node import Drain
from rtagent.model.request import Flavor, Instance, InstanceUpdate
from rtagent.model.server import ImageRequest, RequestSpec
from rtagent.ports import NullReporter
from rtagent.scheduler.claim_template import claim_template
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.fleet_counts import FleetCounts
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.select import Scheduler
from rtagent.scheduler.weighing import HostWeighers
from tests.property.test_numa_fit import hosts as numa_hosts
from tests.property.test_pci_fit import hosts as pci_hosts
from tests.support.hosts import NOON, ManualClock, call, uid
from tests.support.random_nodes import empty_node, one_in, random_build, random_node, some
from tests.support.reporting_agents import ReportingAgent, deliver

#: The number of requests, and of builds of one after which a test stops.
REQUESTS, MANY = 4, 25
FILTERS = (
    *("NUMATopologyFilter", "PciPassthroughFilter", "NumInstancesFilter", "IoOpsFilter"),
    *("JsonFilter", "ComputeCapabilitiesFilter"),
)


class Agent(ReportingAgent):
    """An agent that judges amounts, as `room` does, and may be drained or disabled."""

    def __init__(self, rng, name, there, devices):
        state = (empty_node if one_in(rng, 2) else random_node)(rng, there, devices)
        judging = replace(state.policy, judge_amounts=UNSET)
        drain = Drain(since=NOON, reason="reboot") if one_in(rng, 5) else None
        super().__init__(name, replace(state, policy=judging, drain=drain))
        self.service = ServiceState(disabled=one_in(rng, 5))

    def host_report(self, **fields):
        draining = self.state.drain.reason if self.state.drain else None
        return super().host_report(service=replace(self.service, draining=draining), **fields)

    def built(self, spec, owner, operation_id):
        """Grant the claim of a selection, and finish the build."""
        assert self.state.drain is None
        claim = self.claim(claim_template(spec).build_request(owner), operation_id)
        assert claim is not None, (self.name, spec)
        active = InstanceUpdate(uuid=owner, vm_state="active")
        for rule, argument in ((claims.activate_claim, claim.uuid), (claims.update_usage, active)):
            decision = rule(self.state, call(rule.__name__), NOON, argument)
            assert isinstance(decision, Granted)
            self.state = self.state.fold(decision.change)


def random_spec(rng):
    instance, specs = random_build(rng, 20).instance, {}
    if one_in(rng, 2):
        small = Flavor(vcpus=1, memory_mb=64, extra_specs={"hw:cpu_policy": "dedicated"})
        plain = replace(small, extra_specs={})
        instance = Instance(uuid=instance.uuid, flavor=rng.choice([small, plain]))
    if one_in(rng, 3):
        specs["capabilities:free_ram_mb"] = f">= {rng.randrange(4096)}"
    query = rng.choice([["<", "$vcpus_used", rng.randrange(16)], [">", "$free_ram_mb", 2048]])
    hints = {"query": json.dumps(query)}
    flavor = instance.flavor
    return RequestSpec(
        flavor=replace(flavor, extra_specs={**flavor.extra_specs, **specs}),
        image=ImageRequest(properties=instance.image.properties),
        pci_requests=instance.pci_requests,
        is_bfv=instance.is_volume_backed,
        scheduler_hints=hints if one_in(rng, 3) else None,
    )


class Fleet:
    """Agents, and a scheduler that knows them."""

    def __init__(self, rng, hosts):
        self.agents = {
            name: Agent(rng, name, there, devices)
            for name, (there, devices) in zip(("cn1", "cn2", "cn3"), hosts, strict=False)
        }
        clock, reporter = ManualClock(), NullReporter()
        self.manager = HostManager(clock, reporter, lambda _: None)
        for agent in self.agents.values():
            deliver(self.manager, *agent.answer())
        some_filters = FILTERS if one_in(rng, 2) else some(rng, FILTERS, len(FILTERS))
        options = FilterOptions(
            enabled_filters=("ComputeFilter", *some_filters),
            max_instances_per_host=rng.choice([4, 8, 50]),
            max_io_ops_per_host=rng.choice([2, 4, 50]),
        )
        self.scheduler = Scheduler(
            self.manager,
            HostFilters.load(options),
            HostWeighers.load(options, rng),
            SchedulerOptions(),
            None,
            clock,
            reporter,
        )

    def room(self, spec):
        counts = FleetCounts(lambda: self.scheduler.parts)
        counts.of_request(spec)
        assert counts.count(60)
        return counts.of_request(spec, by="host")

    def builds(self, spec):
        """Build one instance after the other. Return the number on each host."""
        hosts = Counter()
        while hosts.total() < MANY:
            owner = uid(80_000 + hosts.total())
            try:
                [found] = self.scheduler.select_destinations(spec, [owner])
            except NoValidHost:
                break
            selected = found.selected
            agent = self.agents[selected.host]
            agent.built(spec, owner, selected.operation_id)
            deliver(self.manager, *agent.messages())
            hosts[selected.host] += 1
        return hosts


@given(st.lists(st.tuples(numa_hosts(), pci_hosts()), min_size=1, max_size=3), st.integers(0, 99))
def test_builds_succeed_as_often_as_counted_on_the_hosts_of_which_it_was_counted(hosts, seed):
    rng = random.Random(f"{seed} {hosts}")
    specs = [random_spec(rng) for _ in range(REQUESTS)]
    for number, spec in enumerate(specs):
        fleet = Fleet(random.Random(f"{seed} {number} {hosts}"), hosts)
        try:
            counted = fleet.room(spec)
        except RequestError:
            continue
        built = fleet.builds(spec)
        total = counted.summary
        assert not counted.pending
        assert built.total() == min(total.room, MANY), (spec, total, built)
        if total.room <= MANY:
            rooms = {each.name: each.summary.room for each in counted.groups}
            assert rooms == {name: built[name] for name in fleet.agents}
            assert (total.largest, total.hosts_with_room) == (
                max(built.values(), default=0),
                len(built),
            )
