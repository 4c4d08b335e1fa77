"""SqlNodes, on every kind of database."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from rtagent.db.engine import open_engine
from rtagent.db.node_records import SqlNodes
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.store import SqlStore
from rtagent.errors import NodeNotFound, RtAgentError, StoreUnavailable, WriterFenced
from tests.support.stored_values import (
    NODE,
    NOW,
    claim,
    created,
    folded,
    released,
    rule,
    state_of,
    take_over,
    uuid,
)
from tests.support.workload.deployment import migrated

OTHER = replace(NODE, uuid=uuid(2), host="host-2", hypervisor_hostname="hv0.example")


@pytest.fixture
def store(engine):
    store = SqlStore(engine)
    store.enroll(OTHER.uuid, OTHER.hypervisor_hostname, rule(OTHER, 1))
    return store


def allowed(record, live_claims):
    pass


def test_records_are_listed_by_name_with_the_heartbeat_of_their_service(engine, store):
    store.enroll(NODE.uuid, NODE.hypervisor_hostname, take_over)
    SqlServiceRegistry(engine).heartbeat(NODE.host, NOW)
    records = SqlNodes(engine).records()
    assert [(r.node, r.report_count) for r in records] == [(OTHER, None), (NODE, 1)]


def test_heartbeats_have_the_time_of_the_database_server(engine):
    """The hosts of a shared database need not agree on the time."""
    registry = SqlServiceRegistry(engine)
    seen = registry.heartbeat(NODE.host, NOW).last_seen_up
    assert seen is not None
    assert abs(registry.now(NOW) - seen) < timedelta(hours=1)
    # An embedded database has no clock of its own.
    own = NOW if engine.dialect.name == "sqlite" else datetime.now(UTC)
    assert abs(own - seen) < timedelta(hours=1)


def test_a_removed_record_is_kept_and_can_be_restored(engine, store):
    nodes = SqlNodes(engine)
    assert nodes.remove(OTHER.uuid, allowed, NOW).node == OTHER
    (record,) = nodes.records()
    assert (record.deleted_at, record.epoch) == (NOW, 2)
    with pytest.raises(NodeNotFound):
        nodes.remove(OTHER.uuid, allowed, NOW)
    store.enroll(OTHER.uuid, OTHER.hypervisor_hostname, rule(OTHER, 3))
    assert nodes.records()[0].deleted_at is None


def test_the_rule_gets_record_and_claims_and_may_refuse(engine, store):
    state = state_of(store.enroll(NODE.uuid, NODE.hypervisor_hostname, take_over))
    first, second = created(claim(1), claim(2)), released(claim(2))
    after = folded(state, first, second)
    store.commit(state, after, (first, second))
    seen = []

    def keep(record, live_claims):
        seen.append((record.node, live_claims))
        raise RtAgentError("keep it")

    nodes = SqlNodes(engine)
    for node in (NODE, OTHER):
        with pytest.raises(RtAgentError, match="keep it"):
            nodes.remove(node.uuid, keep, NOW)
    assert seen == [(NODE, 1), (OTHER, 0)]
    assert all(record.deleted_at is None for record in nodes.records())


def test_the_writer_of_a_removed_record_is_fenced(engine, store):
    state = state_of(store.enroll(NODE.uuid, NODE.hypervisor_hostname, take_over))
    SqlNodes(engine).remove(NODE.uuid, allowed, NOW)
    change = created(claim(1), at=NOW + timedelta(seconds=1))
    with pytest.raises(WriterFenced):
        store.commit(state, folded(state, change), (change,))


def test_many_new_nodes_enrol_at_the_same_moment(postgresql):
    """As after a power failure. None is refused because of the others."""
    engine = open_engine(migrated(postgresql.create_database()), 30)
    nodes = [
        replace(NODE, uuid=uuid(100 + n), host=f"host-{n}", hypervisor_hostname=f"hv{n}.example")
        for n in range(16)
    ]
    together = threading.Barrier(len(nodes))

    def enroll(node):
        store = SqlStore(engine)
        together.wait(60)
        store.enroll(node.uuid, node.hypervisor_hostname, rule(node, 1))

    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(enroll, nodes))

    assert {each.node for each in SqlNodes(engine).records()} == set(nodes)
    engine.dispose()


def test_second_uuid_of_a_hypervisor_sees_the_first_that_enrols_at_the_same_moment(postgresql):
    engine = open_engine(migrated(postgresql.create_database()), 30)
    second, seen = replace(NODE, uuid=uuid(100)), []

    def look(records):
        seen.extend(record.node for record in records)
        return rule(second, 1)(records)

    def enroll_second():
        SqlStore(engine).enroll(second.uuid, second.hypervisor_hostname, look)

    with ThreadPoolExecutor(1) as pool:

        def first(records):
            wait([pool.submit(enroll_second)], timeout=1)  # it waits for this one
            return take_over(records)

        SqlStore(engine).enroll(NODE.uuid, NODE.hypervisor_hostname, first)

    assert seen == [NODE]
    engine.dispose()


def test_agent_does_not_enrol_with_an_epoch_that_the_writer_has_raised_meanwhile(postgresql):
    engine = open_engine(migrated(postgresql.create_database()), 30)
    writer, other = SqlStore(engine), SqlStore(engine)
    state = state_of(writer.enroll(NODE.uuid, NODE.hypervisor_hostname, take_over))

    def enroll(records):
        state_of(writer.reload(NODE.uuid, state.epoch))
        return take_over(records)

    with pytest.raises(StoreUnavailable):
        other.enroll(NODE.uuid, NODE.hypervisor_hostname, enroll)
    assert writer.load(NODE.uuid).epoch == state.epoch + 1
    engine.dispose()
