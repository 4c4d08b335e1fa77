"""Selections with Placement: hosts of a large fleet are queried one by one, others together."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from msgspec.structs import replace

from rtagent.errors import PlacementConflict, PlacementUnavailable
from rtagent.model.server import Destination
from rtagent.placement.shared_requests import SharedRequests
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.ports import Candidates, Written
from rtagent.scheduler.scheduling_call import FEW, MANY
from tests.servers.daemon import PATIENCE, wait_until
from tests.support.host_states import host_state
from tests.support.hosts import ManualClock, host, uid
from tests.support.scheduling import HostsInMemory, group, scheduler, spec

RESOURCES = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 1}
#: A query of all hosts, by its tree.
ALL = None


class QueriedPlacement:
    """Placement, which has one candidate on each of some hosts.

    :ivar having: the uuids of these hosts. :ivar refuses: of hosts whose allocations it refuses.
    :ivar queries: in order. :ivar timeouts: theirs.
    :ivar written: the providers of the allocations that were written.
    :ivar answers: the number of queries that are answered. :ivar seconds: that each one takes.
    :ivar meanwhile: what happens before each answer. :ivar undone: what was undone.
    """

    def __init__(self, having):
        self.having, self.written, self.refuses = list(having), [], []
        self.queries, self.timeouts = [], []
        self.answers, self.seconds, self.clock = 1000, 0.0, ManualClock()
        self.meanwhile = lambda: None
        self.undone = []

    @contextmanager
    def allocation_candidates(self, query, timeout):
        if len(self.queries) == self.answers:
            raise PlacementUnavailable("down for maintenance")
        self.clock.advance(self.seconds)
        self.meanwhile()
        self.queries.append(query)
        self.timeouts.append(timeout)
        tree = dict(query).get("in_tree", ALL)
        parts = (part.split(":") for part in dict(query).get("resources", "").split(",") if part)
        asked = {name: int(number) for name, number in parts}
        uuids = self.having if tree is ALL else [each for each in self.having if each == tree]
        resources = {"resources": asked}
        requests = tuple({"allocations": {uuid: resources}} for uuid in uuids)
        yield Candidates(requests=requests, version="1.39")

    def write(self, request):
        if request.allocations.keys() & set(self.refuses):
            raise PlacementConflict("another request was faster")
        self.written += request.allocations
        written = {"allocations": request.allocations, "before": {}, "generation": 1}
        return Written(consumer_uuid=request.consumer_uuid, **written)

    def undo(self, written):
        self.undone.append(written)
        self.written.remove(*written.allocations)


class Fleet:
    """Hosts of which each has less free memory than the one before, and the first one has 4 GiB
    more. :ivar uuids: in this order.
    """

    def __init__(self, number=MANY):
        self.hosts = HostsInMemory(
            host_state(f"cn{n}", host(reserved_memory_mb=n and 4096 + n)) for n in range(number)
        )
        self.uuids = list(self.hosts.states)
        self.placement = QueriedPlacement(self.uuids)

    def change(self, number, **fields):
        """Change a host."""
        uuid = self.uuids[number]
        self.hosts.states[uuid] = replace(self.hosts.states[uuid], **fields)

    def scheduler(self):
        return scheduler(self.hosts, self.placement.clock, placement=self.placement)

    def select(self, wanted=None, instances=1, **more):
        """Return the numbers of the selected hosts."""
        owners = [uid() for _ in range(instances)]
        found = self.scheduler().select_destinations(wanted or spec(), owners, **more)
        return [self.uuids.index(each.selected.provider_uuid) for each in found]

    @property
    def queried(self):
        """The numbers of the hosts that were queried, in order; ALL: a query of all."""
        trees = [dict(query).get("in_tree", ALL) for query in self.queries]
        return [ALL if tree is ALL else self.uuids.index(tree) for tree in trees]

    @property
    def queries(self):
        return self.placement.queries


@pytest.fixture
def fleet():
    return Fleet()


def test_alternates_are_queried_too_and_have_what_to_allocate(fleet):
    [found] = fleet.scheduler().select_destinations(spec(), [uid()], alternates=True)
    assert [each.provider_uuid for each in found.alternates] == fleet.uuids[1:3]
    for each in (found.selected, *found.alternates):
        allocations = {each.provider_uuid: {"resources": RESOURCES}}
        assert each.allocation_request == {"allocations": allocations}
        assert each.allocation_request_version == "1.39"
    assert set(fleet.queried) == {0, 1, 2}
    assert len(fleet.queried) == 3


def test_hosts_without_candidates_are_counted(fleet):
    fleet.placement.having = []
    with pytest.raises(NoValidHost) as refused:
        fleet.select()
    assert refused.value.kwargs["refused"] == {"placement": MANY}
    assert fleet.queried == [*range(FEW), ALL]


FOR_PLACEMENT = {
    "units": spec(extra_specs={"resources:CUSTOM_LICENSE": "1"}),
    "a trait": spec(extra_specs={"trait:HW_CPU_X86_AVX2": "required"}),
    "a trait of the root": spec(required_traits=("CUSTOM_GOLD",)),
    "a granular group": spec(extra_specs={"resources1:VCPU": "1"}),
    "no group without a suffix": spec(
        extra_specs={
            "resources1:VCPU": "1",
            "resources1:MEMORY_MB": "1024",
            "resources1:DISK_GB": "1",
        }
    ),
    "a tree": spec(extra_specs={"in_tree": uid()}),
    "an aggregate": spec(requested_destination=Destination(aggregates=(uid(),))),
    "a host": spec(force_hosts=("cn7",)),
    "a destination": spec(requested_destination=Destination(host="cn7")),
}


@pytest.mark.parametrize("wanted", FOR_PLACEMENT.values(), ids=list(FOR_PLACEMENT))
def test_what_placement_has_to_judge_is_one_query(fleet, wanted):
    with suppress(NoValidHost):
        fleet.select(wanted)
    assert len(fleet.queries) == 1
    trees = [value for name, value in fleet.queries[0] if name == "in_tree"]
    assert trees in ([], [fleet.uuids[7]], [wanted.flavor.extra_specs.get("in_tree")])


@pytest.mark.parametrize(
    "change",
    [
        lambda policy: replace(policy, judge_amounts=False),
        lambda policy: replace(policy, placement=replace(policy.placement, disk_provider=uid())),
    ],
    ids=["judges no amounts", "shares a disk"],
)
def test_hosts_that_placement_judges_are_queried_together(fleet, change):
    state = fleet.hosts.states[fleet.uuids[5]].replica
    fleet.change(5, replica=replace(state, policy=change(state.policy)))
    fleet.select()
    assert fleet.queried == [ALL]


def test_a_named_host_with_the_disk_of_another_tree_is_queried_with_all_trees():
    fleet = Fleet(2)
    policy = fleet.hosts.states[fleet.uuids[1]].replica.policy
    shared = replace(policy, placement=replace(policy.placement, disk_provider=uid()))
    state = fleet.hosts.states[fleet.uuids[1]].replica
    fleet.change(1, replica=replace(state, policy=shared))
    # The volume needs no disk, so that the candidate is of the host alone.
    assert fleet.select(spec(1, 512, 0, requested_destination=Destination(host="cn1"))) == [1]
    assert fleet.queried == [ALL]
    assert "limit" not in dict(fleet.queries[0])
    assert fleet.select(spec(force_hosts=("cn0",))) == [0]
    assert fleet.queried == [ALL, 0]


def test_hosts_of_a_group_are_queried_one_by_one(fleet):
    assert fleet.select(spec(instance_group=group("anti-affinity"))) == [0]
    assert fleet.queried == [0]


def test_a_full_host_is_not_queried(fleet):
    pinned = spec(extra_specs={"hw:cpu_policy": "dedicated"})
    with pytest.raises(NoValidHost) as refused:
        fleet.select(pinned)
    assert fleet.queried == []
    assert refused.value.kwargs["refused"] == {"fit": MANY}


def test_a_host_whose_allocations_are_refused_is_passed_over(fleet):
    fleet.placement.refuses = fleet.uuids[:2]
    assert fleet.select() == [2]
    assert fleet.queried == [0, 1, 2]
    assert len(fleet.hosts.assumed) == 1


def test_a_selection_stands_with_fewer_alternates_if_placement_does_not_answer(fleet):
    fleet.placement.answers = 2
    [found] = fleet.scheduler().select_destinations(spec(), [uid()], alternates=True)
    assert found.selected.provider_uuid == fleet.uuids[0]
    assert [each.provider_uuid for each in found.alternates] == fleet.uuids[1:2]
    assert fleet.placement.written == fleet.uuids[:1]
    assert len(fleet.hosts.assumed) == 1


def test_each_query_is_sent_while_there_is_time_for_its_answer(fleet):
    fleet.placement.having = fleet.uuids[3:]
    fleet.placement.seconds = 6.0
    assert fleet.select() == [3]
    assert fleet.placement.timeouts == [15, 9, 3, 0]


def take(fleet, number):
    """Let another request take 14 GiB of a host, once."""
    fleet.placement.meanwhile = lambda: None
    others = scheduler(fleet.hosts)
    wanted = spec(1, 14 * 1024, force_hosts=(f"cn{number}",))
    others.select_destinations(wanted, [uid()])


def test_a_host_that_changes_while_it_is_queried_is_weighed_again(fleet):
    fleet.placement.meanwhile = lambda: take(fleet, 0)
    assert fleet.select() == [1]
    assert fleet.queried == [0, 1]


def test_alternates_are_not_queried_when_it_is_late(fleet):
    fleet.placement.seconds = 16.0
    [found] = fleet.scheduler().select_destinations(spec(), [uid()], alternates=True)
    assert found.selected.provider_uuid == fleet.uuids[0]
    assert found.alternates == ()
    assert fleet.queried == [0]


def test_instances_are_selected_again_when_all_hosts_are_queried(fleet):
    fleet.placement.having = [fleet.uuids[0], fleet.uuids[-1]]
    assert fleet.select(spec(1, 9 * 1024), instances=2) == [0, MANY - 1]
    assert fleet.placement.written == [fleet.uuids[0], fleet.uuids[-1]]
    assert len(fleet.hosts.assumed) == 2


class KeepingPlacement(QueriedPlacement):
    """Placement, which is away when allocations are to be undone."""

    def undo(self, written):
        raise PlacementUnavailable("down for maintenance")


def test_a_selection_fails_with_its_own_error_if_its_allocations_cannot_be_undone():
    fleet = Fleet(1)
    fleet.placement = KeepingPlacement(fleet.uuids)
    with pytest.raises(NoValidHost):
        fleet.select(spec(1, 9 * 1024), instances=2)
    assert fleet.hosts.assumed == {}


#: Selections at the same time: more than three hosts take.
CALLERS = 14


class SharedPlacement(QueriedPlacement):
    """Placement behind `SharedRequests`. The first answer comes when all others wait."""

    def __init__(self, having):
        super().__init__(having)
        self.shared = SharedRequests[Any, Any, Any]("GET", self._ask, 4, PATIENCE)

    def allocation_candidates(self, query, timeout):
        return self.shared.answer(query, query, timeout)

    def _ask(self, queries):
        wait_until(lambda: bool(self.queries) or self.shared.waiting == CALLERS - 1)
        with super().allocation_candidates(queries[0], 0) as found:
            return found


def outcomes(fleet, threads):
    """Return how often each host is selected; None: no host is left."""
    chooser = fleet.scheduler()

    def select(_):
        try:
            [found] = chooser.select_destinations(spec(memory_mb=4096), [uid()])
        except NoValidHost:
            return None
        return found.selected.provider_uuid

    with ThreadPoolExecutor(threads) as pool:
        return Counter(pool.map(select, range(CALLERS)))


def test_selections_that_share_an_answer_fill_a_fleet_as_single_ones_do():
    alone, fleet = Fleet(3), Fleet(3)
    fleet.placement = SharedPlacement(fleet.uuids)
    singly = outcomes(alone, 1)
    assert singly[None]
    assert outcomes(fleet, CALLERS) == singly
    assert len(fleet.placement.queries) == 2
    assumed = Counter(claim.node_uuid for claim in fleet.hosts.assumed.values())
    del singly[None]
    assert Counter(fleet.placement.written) == assumed == singly
