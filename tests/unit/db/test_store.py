"""Stores, in memory and in SQL: enrollment, commits, reloads, reads and purges; and registries of
services.
"""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, text

from rtagent.db.store import SqlStore
from rtagent.errors import ChangeRejected, RevisionConflict, WriterFenced
from rtagent.model.change import Change
from rtagent.model.policy import ManageAllocations, PlacementPolicy
from rtagent.model.stored import Checkpoint, EndedMove, Retention
from tests.support.stored_forms import MOVE
from tests.support.stored_values import (
    DEVICE,
    INVENTORIES,
    NODE,
    NOW,
    OCCUPANCY,
    ODD,
    POLICY,
    TOPOLOGY,
    WRITER,
    claim,
    created,
    device,
    domain_usage,
    ended,
    migration,
    odd_claim,
    operation,
    pinned,
    released,
    rule,
    state_of,
    take_over,
    uuid,
)
from tests.support.stores import Database, assert_loads, assert_stored, commit, enrolled


def test_enroll_rule_sees_the_records_of_its_uuid_and_of_its_host_name(database: Database):
    deleted = NOW - timedelta(days=1)
    same_name = replace(NODE, uuid=uuid(77))
    others = replace(NODE, uuid=uuid(78), hypervisor_hostname=NODE.hypervisor_hostname.upper())
    store = database.store()
    after = commit(store, enrolled(store), created(claim(1)))
    store.enroll(same_name.uuid, "another", rule(same_name, 3, deleted_at=deleted))
    store.enroll(others.uuid, others.hypervisor_hostname, rule(others, 1))
    database.registry().heartbeat(NODE.host, NOW)
    seen = {}

    def look(records):
        seen.update((record.node.uuid, record) for record in records)
        return take_over(records)

    stored = database.store().enroll(NODE.uuid, NODE.hypervisor_hostname, look)
    assert seen.keys() == {NODE.uuid, same_name.uuid}
    assert (seen[same_name.uuid].epoch, seen[same_name.uuid].deleted_at) == (3, deleted)
    mine = seen[NODE.uuid]
    assert (mine.node, mine.epoch, mine.revision, mine.writer) == (NODE, 1, 1, WRITER)
    assert (mine.report_count, mine.deleted_at) == (1, None)
    assert stored.epoch == 2
    assert_stored(stored, after)


def test_every_field_is_stored(database: Database):
    store = database.store()
    change = replace(
        created(odd_claim(1), claim(2)),
        domain_usages=(domain_usage(1, occupancy=OCCUPANCY), domain_usage(2, active=False)),
        migrations=(MOVE,),
        devices=(DEVICE, device(1)),
        resource_inventories=INVENTORIES,
        topology=TOPOLOGY,
        policy=POLICY,
        failed_builds=3,
        disk_available_least=-7,
    )
    after = commit(store, enrolled(store), change)
    stored = database.store().load(NODE.uuid)
    assert_stored(stored, after)
    assert stored.ratios.cpu == POLICY.cpu_allocation_ratio
    assert stored.ratios.ram == POLICY.ram_allocation_ratio
    assert stored.ratios.disk == POLICY.disk_allocation_ratio


def test_commit_on_another_revision_is_a_conflict_and_writes_nothing(database: Database):
    store = database.store()
    old = enrolled(store)
    state = commit(store, old, created(claim(1)))
    with pytest.raises(RevisionConflict):
        commit(store, old, replace(created(claim(2)), domain_usages=(domain_usage(1),)))
    assert_loads(store, state)
    assert len(store.history(NODE.uuid)) == 1


def test_newer_writer_fences_the_older_whatever_it_has_written_since(database: Database):
    first, second = database.store(), database.store()
    old = enrolled(first)
    new = enrolled(second)
    assert first.position(NODE.uuid) == new.position
    for number in (1, 2):
        with pytest.raises(WriterFenced) as caught:
            commit(first, old, created(claim(9)))
        theirs = {"node_uuid": NODE.uuid, "ours": old.epoch, "theirs": new.epoch}
        assert caught.value.kwargs == theirs
        new = commit(second, new, created(claim(number)))
        assert_loads(second, new)


def test_nodes_of_one_database_are_independent(database: Database):
    other = replace(NODE, uuid=uuid(55), hypervisor_hostname="hv55")
    store = database.store()
    states = [enrolled(store), state_of(store.enroll(other.uuid, "hv55", rule(other, 9)))]
    for number, state in enumerate(states):
        node = state.node
        its = pinned(number, 4, node_uuid=node.uuid, node=node.hypervisor_hostname)
        change = replace(
            created(its),
            operations=(operation("shared"),),
            domain_usages=(domain_usage(1),),
            migrations=(migration(1, node_uuid=node.uuid),),
        )
        states[number] = commit(store, state, change)
    for state in states:
        assert_loads(store, state)
        assert len(store.history(state.node.uuid)) == 1


def test_reload_raises_the_epoch_and_reads_everything(database: Database):
    store = database.store()
    state = commit(store, enrolled(store), created(claim(1)))
    stored = store.reload(NODE.uuid, state.epoch)
    assert stored.epoch == state.epoch + 1
    assert_stored(stored, state)
    with pytest.raises(WriterFenced):
        commit(store, state, created(claim(2)))
    assert_loads(store, commit(store, state_of(stored), created(claim(2))))


def test_reload_whose_answer_was_lost_does_not_fence_its_own_store(database: Database):
    store = database.store()
    state = commit(store, enrolled(store), created(claim(1)))
    for _ in range(2):
        store.reload(NODE.uuid, state.epoch)
    assert store.reload(NODE.uuid, state.epoch).epoch == state.epoch + 3
    enrolled(database.store())
    with pytest.raises(WriterFenced):
        store.reload(NODE.uuid, state.epoch)


def test_ended_id_does_not_replace_the_operation_of_that_id(database: Database):
    store = database.store()
    first = Change(cause="x", at=NOW, operations=(operation("x"),))
    end = Change(cause="abort", at=NOW, operations=(ended("x"), ended("z")))
    state = commit(store, enrolled(store), first, end)
    state = commit(store, state, end)
    assert store.operation(NODE.uuid, "x") == operation("x")
    assert store.operation(NODE.uuid, "X") is None, "ids are case-sensitive"
    assert store.operation(NODE.uuid, "z") == ended("z")
    for name in "xz":
        with pytest.raises(ChangeRejected):
            commit(store, state, Change(cause="x", at=NOW, operations=(operation(name),)))


def test_a_policy_without_the_outbox_deletes_its_rows(database: Database):
    managed = replace(POLICY, placement=PlacementPolicy(manage_allocations=ManageAllocations.YES))
    store = database.store()
    state = replace(enrolled(store), policy=managed)
    state = commit(store, state, created(claim(1)), created(claim(2)))
    assert_loads(store, state)
    state = commit(store, state, Change(cause="policy", at=NOW, policy=POLICY))
    assert not state.outbox
    assert_loads(store, state)


ENDED = {uuid(9): EndedMove(updated_at=NOW, running=0.5)}
CHECKPOINTS = (Checkpoint(revision=3, running=1.5),)
KEPT = Retention(running=2.5, checkpoints=CHECKPOINTS, moves=ENDED)


def test_purge_deletes_old_operations_and_released_claims_only(database: Database):
    store = database.store()
    live, gone, late = (claim(n) for n in (1, 2, 3))
    state = commit(store, enrolled(store), created(live, gone, late))
    state = commit(store, state, released(replace(gone, revision=2)))
    old = state.revision
    state = commit(store, state, released(replace(late, revision=3)))
    state = commit(store, state, Change(cause="x", at=NOW, operations=(operation("new"),)))
    assert store.purge(NODE.uuid, 0, Retention()) == 0
    assert store.purge(NODE.uuid, old, Retention()) == 4
    assert store.purge(NODE.uuid, old, KEPT) == 0
    assert_loads(store, state)
    assert store.retention(NODE.uuid) == KEPT
    assert store.operation(NODE.uuid, live.uuid) is None
    assert store.operation(NODE.uuid, "new") == operation("new")
    commit(store, state, replace(created(gone), operations=()))
    with pytest.raises(ChangeRejected):
        commit(store, state_of(store.load(NODE.uuid)), replace(created(late), operations=()))


def test_damaged_ages_are_counted_anew(engine: Engine):
    """Records are then kept for longer."""
    store = SqlStore(engine)
    enrolled(store)
    store.purge(NODE.uuid, 0, KEPT)
    with engine.begin() as connection:
        connection.execute(text("UPDATE retention SET document = replace(document, '1.5', '0.5')"))
    assert store.retention(NODE.uuid) == Retention()
    store.purge(NODE.uuid, 0, KEPT)
    assert store.retention(NODE.uuid) == KEPT


def test_heartbeat_creates_and_updates_the_service(database: Database):
    registry = database.registry()
    first = registry.heartbeat("b", NOW)
    assert (first.report_count, first.disabled) == (1, False)
    second = registry.heartbeat("b", NOW + timedelta(microseconds=1))
    assert second == replace(first, report_count=2, last_seen_up=second.last_seen_up)
    assert first.last_seen_up is not None and second.last_seen_up is not None
    assert second.last_seen_up > first.last_seen_up
    registry.heartbeat("a", NOW)
    assert [s.host for s in registry.services()] == ["a", "b"]


def test_host_is_disabled_and_enabled(database: Database):
    registry = database.registry()
    registry.heartbeat("a", NOW)
    assert registry.set_disabled("a", True, ODD).disabled_reason == ODD
    beat = database.registry().heartbeat("a", NOW)
    assert (beat.disabled, beat.disabled_reason, beat.report_count) == (True, ODD, 2)
    assert not registry.set_disabled("a", False, None).disabled
    assert registry.set_disabled("new", True, "r").report_count == 0
