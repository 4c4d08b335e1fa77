"""Every operation, with the conductor killed, answers lost, and calls refused, at every point.

A point is before or after one call to the scheduler, an agent, the enactor, a hook or the database.
A long run tries every point, others a third or a tenth of them, of each operation other ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
from msgspec.structs import replace

from rtagent.conductor.errors import OperationFailed, OperationInterrupted
from rtagent.errors import (
    AgentUnreachable,
    ComputeResourcesUnavailable,
    HypervisorUnavailable,
    PlacementUnavailable,
    RtAgentError,
    StoreUnavailable,
    TrackerBusy,
)
from tests.support.cloud import LARGE, Cloud, spec
from tests.support.cloud_parts import Faults, Killed
from tests.support.hosts import uid

SERVER = uid(1)


@dataclass(frozen=True)
class Scenario:
    """:ivar prepare: what happens before. :ivar act: the operation. :ivar settle: what happens
    after it, or after it was interrupted."""

    prepare: Callable[[Cloud], object]
    act: Callable[[Cloud], object]
    settle: Callable[[Cloud], object] = lambda cloud: None


def build(cloud):
    return cloud.conductor().build(spec(), server_uuid=SERVER, name="web-1")


def on_one_host(cloud):
    """Build a server whose host is the first choice of a resize, too."""
    cloud.options = replace(cloud.options, allow_resize_to_same_host=True)
    build(cloud)


def resize(cloud):
    return cloud.conductor().resize(SERVER, LARGE)


def after(*actions):
    """Return the action that takes these in turn."""

    def act(cloud):
        for action in actions:
            action(cloud)

    return act


def operation(name, *arguments, **named):
    """Return the action that makes an operation of the conductor."""
    return lambda cloud: getattr(cloud.conductor(), name)(SERVER, *arguments, **named)


def come_back(cloud):
    """Switch h0 on. What is owed to it is done; a guest that was not evacuated is started."""
    cloud.switch_on("h0")
    assert cloud.resume() == []
    [server] = servers(cloud)
    if server.place.host == "h0":
        cloud.hosts.hypervisors[0].start_domain(SERVER, vcpus=1, memory_mb=1024)


stop, confirm, revert = operation("stop"), operation("confirm"), operation("revert")

SCENARIOS = {
    "build": Scenario(lambda cloud: None, build),
    "delete": Scenario(build, operation("delete")),
    "delete a resized one": Scenario(after(build, resize), operation("delete")),
    "resize": Scenario(build, resize),
    "resize on one host": Scenario(on_one_host, resize),
    "confirm": Scenario(after(build, resize), confirm),
    "confirm on one host": Scenario(after(on_one_host, resize), confirm),
    "revert": Scenario(after(build, resize), revert),
    "revert a stopped one": Scenario(after(build, stop, resize), revert),
    "revert on one host": Scenario(after(on_one_host, resize), revert),
    "live migration": Scenario(build, operation("live_migrate")),
    "evacuation": Scenario(
        after(build, lambda cloud: cloud.switch_off("h0")),
        operation("evacuate"),
        come_back,
    ),
    "forced delete": Scenario(
        after(build, resize, lambda cloud: cloud.switch_off("h0")),
        operation("force_delete", "it is broken"),
        after(lambda cloud: cloud.switch_on("h0"), Cloud.resume),
    ),
    "shelve": Scenario(build, operation("shelve")),
    "unshelve": Scenario(after(build, operation("shelve")), operation("unshelve")),
    "stop": Scenario(build, stop),
    "start": Scenario(after(build, stop), operation("start")),
}


@pytest.fixture(params=SCENARIOS)
def name(request):
    return request.param


@pytest.fixture
def trials(name, every):
    return trials_of(name, every)


@cache
def trials_of(name, every):
    return Trials(name, every)


class Trials:
    """Repeats a scenario, each time on a new cloud, with a fault at another point.

    :ivar points: every point, in order. :ivar tried: those with a fault, by their numbers.
    """

    def __init__(self, name, every):
        self.scenario = SCENARIOS[name]
        cloud = self.cloud()
        self.scenario.act(cloud)
        self.points = tuple(cloud.faults.passed)
        first = list(SCENARIOS).index(name) % every
        self.tried = dict(list(enumerate(self.points))[first::every])
        assert self.tried
        self.scenario.settle(cloud)
        cloud.check()
        self.expected = summary(cloud)

    def cloud(self):
        """Make a cloud on which the operation can begin."""
        return self.prepared(self.scenario)

    @staticmethod
    def prepared(scenario):
        """Make a cloud on which a scenario can begin."""
        cloud = Cloud(placement=True)
        scenario.prepare(cloud)
        cloud.faults = Faults()
        return cloud

    def with_fault(self, fault):
        """Yield each point, and the cloud after the operation with a fault there."""
        for number, point in self.tried.items():
            cloud = self.cloud()
            error = fault(point)
            if error is not None:
                cloud.faults = Faults(errors={number: error})
                yield point, cloud, attempt(cloud, self.scenario.act)


def attempt(cloud, act):
    """Make an operation; return its error, or None."""
    try:
        act(cloud)
    except RtAgentError as error:
        return error
    finally:
        cloud.faults = Faults()
    return None


def summary(cloud):
    """Return what an operator sees in the end."""
    return [(each.uuid, each.vm_state, each.place and each.place.host) for each in servers(cloud)]


def servers(cloud):
    return cloud.records.servers()


def test_killed_at_any_point_it_is_finished(trials):
    scenario = trials.scenario
    for number, point in trials.tried.items():
        if point.endswith("before") and number:  # nothing happens since the point before it
            continue
        cloud = trials.cloud()
        before = summary(cloud)
        cloud.faults = Faults(kill=number)
        with pytest.raises(Killed):
            scenario.act(cloud)
        cloud.faults = Faults()
        failures = cloud.resume()  # what is owed to a host that is off stays
        assert {each.kwargs["kind"] for each in failures} <= {"clear-evacuated", "clear-deleted"}, (
            point
        )
        scenario.settle(cloud)
        cloud.check()
        begun = number > trials.points.index("begin before")
        assert summary(cloud) == (trials.expected if begun else before), point


def lost(point):
    """Return the error of a call whose answer is lost, or that cannot be served now."""
    name = point.split(maxsplit=1)[0]
    if name == "hook":  # it fails with errors of its own
        return None
    if point == "save before":  # nothing has happened since the record before
        return None
    if name in ("begin", "save"):
        return StoreUnavailable("the database does not answer")
    if name.startswith("allocations"):
        return PlacementUnavailable("Placement does not answer")
    if name in ("define", "start", "stop", "undefine", "live_migrate"):
        return HypervisorUnavailable("libvirt does not answer")
    if point.endswith("before") and name != "ping":  # any answer to it is a sign of life
        return TrackerBusy("busy")
    return AgentUnreachable(where="it", why="no reply", remedy="wait")


def test_a_lost_answer_changes_nothing(trials):
    for point, cloud, error in trials.with_fault(lost):
        assert error is None, point
        trials.scenario.settle(cloud)
        cloud.check()
        assert summary(cloud) == trials.expected, point


def test_a_consumer_that_placement_did_not_finish_stops_no_operation(name):
    scenario = SCENARIOS[name]
    cloud = Trials.prepared(scenario)
    cloud.placement.killed = True
    scenario.act(cloud)
    scenario.settle(cloud)
    cloud.check()


SELECTING = ["build", "resize", "live migration", "evacuation", "unshelve"]
LOST_SELECTION = {"select after": AgentUnreachable(where="it", why="no reply", remedy="wait")}
NO_PLACEMENT = PlacementUnavailable("Placement does not answer")


@pytest.mark.parametrize("name", SELECTING)
def test_an_allocation_of_a_lost_answer_is_deleted_when_placement_is_back(trials):
    cloud = trials.cloud()
    away = {f"allocations-{name} before": NO_PLACEMENT for name in ("read", "write")}
    lasting = cloud.faults.lasting
    selecting = trials.points.index("select before")
    cloud.faults.actions[selecting] = lambda: lasting.update(LOST_SELECTION | away)
    assert isinstance(attempt(cloud, trials.scenario.act), OperationInterrupted)
    [failed] = cloud.resume()
    assert isinstance(failed, OperationFailed)
    trials.scenario.settle(cloud)
    cloud.check()


def test_a_refusal_leaves_one_guest_or_none(trials):
    refusal = ComputeResourcesUnavailable(reasons=[{"message": "no CPU is free"}])

    def refuse(point):
        refused = point.endswith("before") and not point.startswith(("begin", "save", "ping"))
        return refusal if refused else None

    for point, cloud, error in trials.with_fault(refuse):
        assert error is None or isinstance(error, (OperationFailed, OperationInterrupted)), point
        cloud.resume()
        trials.scenario.settle(cloud)
        cloud.check()
        if point != "forget before":  # the scheduler forgets it by itself
            assert not cloud.scheduler.assumed, point


@pytest.mark.parametrize("name", ["build", "resize", "live migration", "unshelve"])
def test_a_lease_lost_at_any_point_ends_the_operation(trials):
    """All leases lapse, and the hosts are audited, before or after a call."""
    for number, point in trials.tried.items():
        cloud = trials.cloud()
        cloud.enactor.lost_leases = True
        cloud.faults.actions[number] = cloud.audit
        error = attempt(cloud, trials.scenario.act)
        assert error is None or isinstance(error, OperationFailed), point
        cloud.check()
