"""Stores: enrollment, commits, reloads and reads, in memory and in SQL."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rtagent.errors import IdentityError, RevisionConflict, WriterFenced
from rtagent.model.stored import Stored
from tests.support.stored_values import (
    DEVICE,
    INVENTORIES,
    NODE,
    NOW,
    OCCUPANCY,
    POLICY,
    TOPOLOGY,
    WRITER,
    claim,
    created,
    device,
    domain_usage,
    odd_claim,
    operation,
    rule,
    state_of,
    take_over,
    uuid,
)
from tests.support.stores import Database, assert_loads, assert_stored, commit, enrolled


def test_new_node_is_empty(database: Database):
    stored = database.store().enroll(NODE.uuid, NODE.hypervisor_hostname, take_over)
    assert stored == Stored(node=NODE, revision=0, epoch=1)


def test_enroll_rule_sees_the_last_writer_and_rows_stay(database: Database):
    store = database.store()
    after = commit(store, enrolled(store), created(claim(1)))
    database.registry().heartbeat(NODE.host, NOW)
    seen = []

    def look(records):
        seen.extend(records)
        return take_over(records)

    stored = database.store().enroll(NODE.uuid, NODE.hypervisor_hostname, look)
    assert [(r.node, r.epoch, r.revision, r.writer) for r in seen] == [(NODE, 1, 1, WRITER)]
    assert [(r.report_count, r.deleted_at) for r in seen] == [(1, None)]
    assert stored.epoch == 2
    assert_stored(stored, after)


def test_enroll_finds_a_record_by_hypervisor_hostname(database: Database):
    other = replace(NODE, uuid=uuid(77))
    deleted = NOW - timedelta(days=1)
    store = database.store()
    store.enroll(other.uuid, other.hypervisor_hostname, rule(other, 3, deleted_at=deleted))
    seen = []

    def look(records):
        seen.extend(records)
        return take_over(records)

    store.enroll(NODE.uuid, NODE.hypervisor_hostname, look)
    assert [(r.node, r.epoch, r.deleted_at) for r in seen] == [(other, 3, deleted)]
    assert store.load(NODE.uuid).node == NODE
    assert store.load(other.uuid).node == other


def test_enroll_does_not_see_records_of_other_names(database: Database):
    other = replace(NODE, uuid=uuid(77), hypervisor_hostname=NODE.hypervisor_hostname.upper())
    store = database.store()
    store.enroll(other.uuid, other.hypervisor_hostname, rule(other, 1))
    seen = []

    def look(records):
        seen.extend(records)
        return take_over(records)

    store.enroll(NODE.uuid, NODE.hypervisor_hostname, look)
    assert seen == []


def test_refused_enrollment_writes_nothing(database: Database):
    def refuse(_):
        raise IdentityError("no")

    store = database.store()
    state = enrolled(store)
    with pytest.raises(IdentityError):
        store.enroll(NODE.uuid, NODE.hypervisor_hostname, refuse)
    assert store.load(NODE.uuid).epoch == state.epoch


def test_every_field_is_stored(database: Database):
    store = database.store()
    change = replace(
        created(odd_claim(1), claim(2)),
        domain_usages=(domain_usage(1, occupancy=OCCUPANCY), domain_usage(2, active=False)),
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
    change = replace(
        created(claim(2)), domain_usages=(domain_usage(1),), operations=(operation("later"),)
    )
    with pytest.raises(RevisionConflict):
        commit(store, old, change)
    assert_loads(store, state)
    assert store.operation(NODE.uuid, "later") is None
    assert len(store.history(NODE.uuid)) == 1


def test_newer_writer_fences_the_older(database: Database):
    first, second = database.store(), database.store()
    old = enrolled(first)
    new = enrolled(second)
    with pytest.raises(WriterFenced) as caught:
        commit(first, old, created(claim(1)))
    assert caught.value.kwargs == {
        "node_uuid": NODE.uuid,
        "ours": old.epoch,
        "theirs": new.epoch,
    }
    assert first.position(NODE.uuid) == new.position
    assert_loads(second, commit(second, new, created(claim(2))))


def test_fenced_writer_gets_writer_fenced_not_revision_conflict(database: Database):
    first, second = database.store(), database.store()
    old = enrolled(first)
    commit(second, enrolled(second), created(claim(1)))
    with pytest.raises(WriterFenced):
        commit(first, old, created(claim(2)))


def test_nodes_of_one_database_are_independent(database: Database):
    other = replace(NODE, uuid=uuid(55), hypervisor_hostname="hv55")
    store = database.store()
    state = enrolled(store)
    theirs = state_of(store.enroll(other.uuid, "hv55", rule(other, 9)))
    change = replace(
        created(replace(claim(5), node_uuid=other.uuid, node="hv55")),
        operations=(operation("shared"),),
        domain_usages=(domain_usage(1),),
    )
    theirs = commit(store, theirs, change)
    mine = commit(
        store,
        state,
        replace(
            created(claim(1)),
            operations=(operation("shared"),),
            domain_usages=(domain_usage(1),),
        ),
    )
    assert_loads(store, mine)
    assert_loads(store, theirs)
    assert len(store.history(other.uuid)) == 1


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
    stored = store.reload(NODE.uuid, state.epoch)
    assert stored.epoch == state.epoch + 3
    enrolled(database.store())
    with pytest.raises(WriterFenced):
        store.reload(NODE.uuid, state.epoch)


def test_reload_of_a_fenced_writer_raises_writer_fenced(database: Database):
    store = database.store()
    old = enrolled(store)
    enrolled(database.store())
    with pytest.raises(WriterFenced):
        store.reload(NODE.uuid, old.epoch)
