"""Every operation, with its conductor suspended at every point, until another one has finished.

The other one finishes the operation, and may work on the server for longer. Then the first one goes
on with the call that it was about to make, or with the answer. Domains, claims and allocations are
as the records say.

A long run tries every point with every end, others a third or a tenth of the points with one of two
ends, of each operation other ones.
"""

from __future__ import annotations

from functools import cache

import pytest

from rtagent.conductor.errors import OperationFailed, OperationTaken
from rtagent.errors import AgentUnreachable, ComputeResourcesUnavailable
from tests.support.cloud_parts import HOSTS, Faults
from tests.unit.conductor.test_faults import (
    SCENARIOS,
    SERVER,
    Scenario,
    Trials,
    after,
    attempt,
    build,
    operation,
    resize,
    summary,
)


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
LONG = [
    (finish, then, answered)
    for finish in (leave, refused)
    for then in (leave, live_on, delete)
    for answered in (True, False)
]


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
    passed = list(enumerate(_points(scenario)))
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
def _points(scenario):
    cloud = Trials.prepared(scenario)
    faults = cloud.faults
    attempt(cloud, scenario.act)
    return faults.passed


def books(cloud):
    """Return everything outside of the records, and the records."""
    claims = {uuid: claim.state for host in HOSTS for uuid, claim in cloud.claims(host).items()}
    domains = {
        (host, uuid): (domain.active, cloud.enactor.claims[host, uuid])
        for host, hypervisor in zip(HOSTS, cloud.hosts.hypervisors, strict=True)
        for uuid, domain in hypervisor.domains.items()
    }
    allocated = {uuid: cloud.placement.has(uuid) for uuid in cloud.placement.consumers()}
    return summary(cloud), claims, domains, allocated
