"""Every operation, with the conductor killed, answers lost, calls refused, and the conductor
suspended until another one has finished, at every point.

A point is before or after one call to the scheduler, an agent, the enactor, a hook or the database.
A long run tries every point, others a third or a tenth of them, of each operation other ones.

A conductor that was suspended goes on with the call that it was about to make, or with the answer.
The other one has finished the operation, and may have worked on the server for longer. A long run
tries every end of that, others one of two. Domains, claims and allocations are as the records say.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
from msgspec.structs import replace

from rtagent.conductor.errors import OperationFailed, OperationInterrupted, OperationTaken
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
from tests.support.cloud_parts import HOSTS, Faults, Killed
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
        cloud.hosts[0].world.start_domain(SERVER, vcpus=1, memory_mb=1024)


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
        after(build, lambda cloud: cloud.switch_off("h0")), operation("evacuate"), come_back
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
        return _prepared(scenario.prepare).copy()

    def with_fault(self, fault):
        """Yield each point, and the cloud after the operation with a fault there."""
        for number, point in self.tried.items():
            cloud = self.cloud()
            error = fault(point)
            if error is not None:
                cloud.faults = Faults(errors={number: error})
                yield point, cloud, attempt(cloud, self.scenario.act)


@cache
def _prepared(prepare):
    cloud = Cloud(placement=True)
    prepare(cloud)
    return cloud


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
        kinds = {failure.kwargs["kind"] for failure in failures}
        assert kinds <= {"clear-evacuated", "clear-deleted"}, point
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


@pytest.mark.parametrize("name", ["build", "resize", "live migration", "evacuation", "unshelve"])
def test_an_allocation_of_a_lost_answer_is_deleted_when_placement_is_back(trials):
    cloud = trials.cloud()
    points = ("select after", "allocations-read before", "allocations-write before")
    errors, lasting = {point: lost(point) for point in points}, cloud.faults.lasting
    selecting = trials.points.index("select before")
    cloud.faults.actions[selecting] = lambda: lasting.update(errors)
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


def refusing(action):
    """Return what makes all hosts refuse an order, so that an operation is undone."""
    return lambda cloud: cloud.enactor.refuses.update(dict.fromkeys(HOSTS, action))


UNDONE = {
    "build undone": Scenario(refusing("start"), build),
    "resize undone": Scenario(after(build, refusing("define")), resize),
    "live migration undone": Scenario(
        after(build, refusing("live_migrate")), operation("live_migrate")
    ),
    "unshelve undone": Scenario(
        after(build, operation("shelve"), refusing("start")), operation("unshelve")
    ),
}


def leave(cloud, point=""):
    """Leave the server as it is."""


def delete(cloud):
    """Delete the server, if there is one."""
    for server in cloud.records.servers():
        cloud.conductor().delete(server.uuid)


def live_on(cloud):
    """Take the server off its host, start it there again, with a claim of its own, and move it."""
    states = {"resized": "confirm", "shelved_offloaded": "unshelve", "stopped": "start"}
    for server in cloud.records.servers():
        if server.vm_state == "error":
            return
        if server.vm_state in states:
            getattr(cloud.conductor(), states[server.vm_state])(SERVER)
        cloud.scheduler.order.sort(key=lambda host: host != cloud.records.server(SERVER).place.host)
        for name in ("shelve", "unshelve", "cold_migrate"):
            getattr(cloud.conductor(), name)(SERVER)


def refused(cloud, point):
    """Refuse the call to the other one, which then undoes the operation if it can be undone."""
    refusal = ComputeResourcesUnavailable(reasons=[{"message": "no CPU is free"}])
    cloud.faults = Faults(lasting={} if point.startswith("save") else {point: refusal})
    cloud.resume()
    cloud.faults = Faults()


def forced(cloud, point):
    """Delete the server in place of the operation."""
    for server in cloud.records.servers():
        cloud.conductor().force_delete(server.uuid, "it hangs")


@pytest.mark.parametrize("name", ["build", "resize"])
def test_a_call_of_an_operation_whose_server_was_deleted_by_force_does_no_harm(name, every):
    _suspend(SCENARIOS[name], slice(0, None, every), forced, leave, True)


#: How the other one ends the operation, what it does then, and whether the late call is answered.
ENDS = [(leave, live_on, True), (refused, delete, False)]
LONG = list(itertools.product((leave, refused), (leave, live_on, delete), (True, False)))


@pytest.mark.parametrize("name", [*SCENARIOS, *UNDONE])
def test_a_conductor_that_goes_on_late_does_no_harm(name, every, long):
    operations = {**SCENARIOS, **UNDONE}
    if long:
        for end in LONG:
            _suspend(operations[name], slice(None), *end)
        return
    first = list(operations).index(name)
    for turn, end in enumerate(ENDS):
        _suspend(operations[name], slice((first + turn) % every, None, every), *end)


def _suspend(scenario, tried, finish, then, answered):
    """Suspend the conductor at the points of this slice."""
    passed = list(enumerate(points_of(scenario)))
    # After a call nothing happens until the point after it.
    for number, point in [each for each in passed[2:] if not each[1].endswith("after")][tried]:
        cloud = Trials.prepared(scenario)
        mine, others = cloud.faults, []

        def take_over(cloud=cloud, mine=mine, others=others, point=point):
            cloud.faults, refuses = Faults(), dict(cloud.enactor.refuses)
            cloud.enactor.refuses.clear()
            finish(cloud, point)
            for _ in range(2):  # what is owed is done, too
                cloud.resume()
            scenario.settle(cloud)
            then(cloud)
            if not answered:  # too late for a repetition
                cloud.clock.advance(cloud.options.host_timeout + 1)
            cloud.check()
            others.append(books(cloud))
            cloud.faults = mine
            cloud.enactor.refuses.update(refuses)

        mine.actions[number] = take_over
        if not answered and point.endswith("before"):
            mine.errors[number + 1] = AgentUnreachable(where=point, why="no answer", remedy="-")
        error = attempt(cloud, scenario.act)
        cloud.enactor.refuses.clear()
        # The end of the operation of a server that is deleted since has no effect, and no error.
        ends = (OperationTaken, OperationFailed, *([] if answered else [AgentUnreachable]))
        assert error is None or isinstance(error, ends), point
        cloud.check()
        assert [books(cloud)] == others, point


@cache
def points_of(scenario):
    cloud = Trials.prepared(scenario)
    faults = cloud.faults
    attempt(cloud, scenario.act)
    return faults.passed


def books(cloud):
    """Return everything outside of the records, and the records."""
    claims = {uuid: claim.state for host in HOSTS for uuid, claim in cloud.claims(host).items()}
    domains = {
        (host, uuid): (domain.active, cloud.enactor.claims[host, uuid])
        for host, agent in zip(HOSTS, cloud.hosts, strict=True)
        for uuid, domain in agent.world.domains.items()
    }
    allocated = {uuid: cloud.placement.has(uuid) for uuid in cloud.placement.consumers()}
    return summary(cloud), claims, domains, allocated
