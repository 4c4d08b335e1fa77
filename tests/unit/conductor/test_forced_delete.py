"""The forced delete of a server: what it clears, what is owed, and what an operator drops."""

import pytest

from rtagent.conductor.errors import (
    OperationInterrupted,
    OperationNotFound,
    ServerConflict,
    ServerNotFound,
)
from rtagent.errors import InvalidRequest
from tests.support.cloud import Cloud, spec
from tests.support.cloud_parts import Faults, Killed
from tests.support.hosts import uid
from tests.unit.conductor.test_faults import (
    SCENARIOS,
    SERVER,
    Scenario,
    Trials,
    after,
    build,
    operation,
    points_of,
    resize,
)

WHY = "the disk of h0 is broken"
#: The operations that are killed.
KILLED = (
    *("build", "resize", "resize on one host", "confirm", "revert"),
    *("live migration", "evacuation", "shelve"),
)


def stop_in_the_confirm(cloud):
    """Begin a confirm, which stops, because the source is gone."""
    cloud.switch_off("h0")
    with pytest.raises(OperationInterrupted):
        cloud.conductor().confirm(SERVER)


STUCK = Scenario(after(build, resize, stop_in_the_confirm), operation("force_delete", WHY))


@pytest.fixture
def cloud():
    return Cloud(placement=True)


@pytest.fixture
def stuck(cloud):
    """A conductor, and a server whose confirm has stopped."""
    STUCK.prepare(cloud)
    return cloud.conductor()


def test_a_server_whose_operation_is_stuck_is_deleted(cloud, stuck):
    with pytest.raises(ServerConflict, match="rtagent server delete --force"):
        stuck.delete(SERVER)
    stuck.force_delete(SERVER, WHY)
    assert stuck.servers() == []
    assert cloud.guests(SERVER) == [("h0", "stopped")]
    assert cloud.place(SERVER) == [("h0", "outgoing")]
    assert cloud.placement.consumers() == set()
    [owed] = stuck.owed()
    assert (owed.kind, owed.progress["source"]["host"]) == ("clear-deleted", "h0")
    assert owed.progress["reason"] == WHY
    [error] = cloud.resume()
    assert isinstance(error, OperationInterrupted)

    cloud.switch_on("h0")
    assert cloud.resume() == []
    assert cloud.hooks.calls[-1] == "cleanup at h0"
    cloud.check()
    assert cloud.records.operations() == []


def test_only_what_is_owed_to_a_host_that_is_never_back_is_dropped(cloud, stuck):
    [confirm] = stuck.unfinished()
    with pytest.raises(OperationNotFound):
        stuck.drop_owed(confirm.uuid, WHY)
    stuck.force_delete(SERVER, WHY)
    [owed] = stuck.owed()
    assert stuck.drop_owed(owed.uuid, WHY).kind == "clear-deleted"
    assert stuck.owed() == []
    assert cloud.records.operations() == []
    assert cloud.place(SERVER) == [("h0", "outgoing")]


def test_a_server_without_an_operation_is_deleted(cloud):
    conductor = cloud.conductor()
    conductor.build(spec(), server_uuid=SERVER)
    cloud.switch_off("h0")
    conductor.force_delete(SERVER, WHY)
    assert conductor.servers() == []
    assert [owed.kind for owed in conductor.owed()] == ["clear-deleted"]
    # A new server with its uuid avoids the host, as long as clearing it would remove the guest.
    cloud.switch_on("h0")
    assert conductor.build(spec(), server_uuid=SERVER).place.host == "h1"
    assert cloud.resume() == []
    cloud.check()


def test_an_operation_that_a_conductor_works_on_is_not_replaced(cloud):
    found = []

    def beat(seconds):
        cloud.records.beat(*cloud.records.operations(running=True))

    def force():
        other = cloud.conductor(beat)
        with pytest.raises(ServerConflict, match="a conductor works on the build"):
            other.force_delete(SERVER, WHY)
        found.append(other.server(SERVER).vm_state)

    cloud.hooks.actions["prepare"] = force
    cloud.conductor().build(spec(), server_uuid=SERVER)
    assert found == ["building"]
    cloud.check()


def test_a_reason_is_required(cloud, stuck):
    for call in (stuck.force_delete, stuck.drop_owed):
        with pytest.raises(InvalidRequest, match="reason"):
            call(SERVER, " ")
    with pytest.raises(ServerNotFound):
        stuck.force_delete(uid(), WHY)


def test_killed_at_any_point_the_forced_delete_of_a_stuck_server_is_finished(every):
    points = points_of(STUCK)
    assert {"save after", "undefine at h1 after"} <= set(points)
    for number in range(0, len(points), every):
        cloud = Trials.prepared(STUCK)
        cloud.faults = Faults(kill=number)
        with pytest.raises(Killed):
            STUCK.act(cloud)
        cloud.faults = Faults()
        if cloud.records.servers():
            STUCK.act(cloud)
        cloud.switch_on("h0")
        assert (cloud.resume(), cloud.records.servers()) == ([], []), points[number]
        cloud.check()


@pytest.mark.parametrize("name", KILLED)
def test_killed_at_any_point_an_operation_leaves_nothing_that_no_forced_delete_clears(name, every):
    scenario = SCENARIOS[name]
    # Nothing happens from "after" to "before".
    number, killed = 2 * (KILLED.index(name) % every), True
    while killed:
        cloud = Trials.prepared(scenario)
        cloud.faults, killed = Faults(kill=number), False
        try:
            scenario.act(cloud)
        except Killed:
            killed = True
        cloud.faults, number = Faults(), number + 2 * every
        if cloud.records.servers():
            cloud.conductor().force_delete(SERVER, WHY)
        for host in set(cloud.down):
            cloud.switch_on(host)
        assert (cloud.resume(), cloud.records.servers()) == ([], []), number
        cloud.check()
