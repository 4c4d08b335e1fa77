"""A scheduler starts from the records of all nodes of a shared database."""

from collections.abc import Callable

import pytest
from sqlalchemy import update

from rtagent.db.host_records import HostRecords
from rtagent.db.node_records import SqlNodes
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.schema import compute_nodes
from rtagent.model.node_state import NodeState
from rtagent.ports import NullReporter
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.replica import replica_of
from rtagent.scheduler.report import description_of, instances_of
from rtagent.tracker import ResourceTracker
from tests.servers import PostgreSQL
from tests.support.host_states import node_named
from tests.support.hosts import NOON, PINNED, ManualClock, request, uid
from tests.support.reporting_agents import ReportingAgent, assumable, deliver
from tests.support.trackers import claim, started


@pytest.fixture(scope="module")
def empty_database(postgresql_server: PostgreSQL) -> Callable[[], str]:
    """The queries are the same for every kind of database."""
    return postgresql_server.create_database


def agent_of(tracker: ResourceTracker) -> ReportingAgent:
    """Return the agent that reports the state of a tracker."""
    agent = ReportingAgent(tracker.snapshot().node.host)
    agent.state = tracker.snapshot()
    return agent


def manager_of(engine, seen=NOON) -> HostManager:
    manager = HostManager(ManualClock(10_000), NullReporter(), lambda _: None)
    for record in HostRecords(engine).read(seen):
        assert record.report is not None, record.why_not
        manager.start_host(record.report, record.instances, record.age)
    return manager


def test_replica_from_the_database_is_that_of_the_agents_report(engine):
    trackers = [started(engine, name) for name in ("cn1", "cn2")]
    for name in ("cn1", "cn2"):
        SqlServiceRegistry(engine).heartbeat(name, NOON)
    hosts = manager_of(engine).get_all_host_states()
    assert len(hosts) == 2
    for tracker in trackers:
        state: NodeState = tracker.snapshot()
        (seen,) = [each for each in hosts if each.uuid == state.node.uuid]
        report = agent_of(tracker).host_report()
        assert seen.replica == replica_of(report, description_of(state))
        assert seen.base == state.position
        assert dict(seen.instances) == instances_of(state)
    one, two = hosts
    assert one.replica.devices is two.replica.devices


def test_agents_first_report_continues_what_the_database_began(engine):
    tracker = started(engine)
    SqlServiceRegistry(engine).heartbeat("cn1", NOON)
    manager = manager_of(engine)
    (before,) = manager.get_all_host_states()
    agent = agent_of(tracker)
    deliver(manager, agent.report())
    (after,) = manager.get_all_host_states()
    assert after.version == before.version and after.instances == before.instances
    made = claim(tracker, request(1, 64))
    agent.state = tracker.snapshot()
    deliver(manager, *agent.messages())
    (after,) = manager.get_all_host_states()
    assert made.owner_id in after.instances_here and len(after.instances) == 5


def test_selection_is_possible_before_any_report(engine):
    tracker = started(engine)
    SqlServiceRegistry(engine).heartbeat("cn1", NOON)
    manager = manager_of(engine)
    seen = manager.get_host_state(tracker.snapshot().node.uuid)
    assert seen is not None
    wanted = request(2, 64, owner=uid(), extra_specs=PINNED)
    chosen = assumable(manager.replica_for(seen, uid()), wanted)
    own = assumable(tracker.snapshot(), wanted)
    assert chosen.numa_topology == own.numa_topology
    assert manager.assume(seen.uuid, chosen, here=True).vcpus_used == seen.vcpus_used + 2


def test_service_and_age_come_from_its_record(engine):
    started(engine, "cn1", 0), started(engine, "cn2", 0), started(engine, "cn3", 0)
    registry = SqlServiceRegistry(engine)
    registry.heartbeat("cn1", NOON)
    registry.set_disabled("cn2", disabled=True, reason="maintenance")
    records = {each.node_uuid: each for each in HostRecords(engine).read(NOON)}
    one, two, three = (records[node_named(name).uuid] for name in ("cn1", "cn2", "cn3"))
    assert 0 <= one.age < 600 and two.age == three.age == float("inf")
    assert two.report.service.disabled_reason == "maintenance" and not one.report.service.disabled
    manager = manager_of(engine)
    manager.expect([each.node_uuid for each in records.values()])
    manager.tick()
    assert [each.service.disabled for each in manager.get_all_host_states()] == [False, True, False]


def test_removed_node_is_left_out(engine):
    tracker = started(engine, number=0)
    records, uuid = HostRecords(engine), tracker.snapshot().node.uuid
    assert records.nodes() == {uuid}
    SqlNodes(engine).remove(uuid, lambda record, live: None, NOON)
    assert records.nodes() == frozenset() and list(records.read(NOON)) == []


@pytest.mark.parametrize(
    ("column", "value", "why_not"),
    [
        ("policy", None, "has not stored its policy yet"),
        ("policy", "{}", "policy cannot be read"),
        ("topology", None, "has not observed it yet"),
        ("claims_roster", 7, "rows of claims are missing"),
        ("epoch", 2**62 + 1, "epoch cannot be read"),
    ],
)
def test_record_that_does_not_suffice_says_why_and_others_are_read(engine, column, value, why_not):
    bad, good = started(engine, "cn1", 1), started(engine, "cn2", 1)
    uuid = bad.snapshot().node.uuid
    with engine.begin() as connection:
        row = update(compute_nodes).where(compute_nodes.c.uuid == uuid)
        connection.execute(row.values({column: value}))
    found = {each.node_uuid: each for each in HostRecords(engine).read(NOON)}
    assert found[uuid].report is None and why_not in found[uuid].why_not
    assert found[good.snapshot().node.uuid].report is not None
