"""How every store behaves, whatever it keeps its rows in.

A test module derives a class from these and brings the fixture `database`.
"""

from datetime import timedelta
from typing import Any, Protocol

import pytest
from immutables import Map
from msgspec.structs import replace

from rtagent.db.event import ClaimEvent, ClaimFacts
from rtagent.errors import ChangeRejected, IdentityError, RevisionConflict, WriterFenced
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, RELEASED
from rtagent.model.host import HostState
from rtagent.model.usage import NOTHING
from rtagent.ports import ServiceRegistry, Store, Stored
from tests.unit.db.values import (
    DEVICE,
    NODE,
    NOW,
    OCCUPIED,
    ODD,
    POLICY,
    SPECIFIC,
    TOPOLOGY,
    WRITER,
    claim,
    created,
    device,
    devices,
    ended,
    folded,
    given,
    holding,
    moved,
    odd_claim,
    operation,
    pinned,
    released,
    rule,
    state_of,
    take_over,
    uuid,
)


class Database(Protocol):
    """Where several stores meet."""

    def store(self) -> Any: ...

    def registry(self) -> ServiceRegistry: ...


def enrolled(store: Store) -> HostState:
    return state_of(store.enroll(NODE.uuid, NODE.hypervisor_hostname, take_over))


def commit(store: Store, state: HostState, *changes: Change) -> HostState:
    after = folded(state, *changes)
    store.commit(state, after, changes)
    return after


def same(stored: Stored, state: HostState) -> None:
    assert stored.revision == state.revision
    assert {c.uuid: c for c in stored.claims} == dict(state.claims)
    assert {h.domain_uuid: h for h in stored.holdings} == dict(state.holdings)
    assert {m.uuid: m for m in stored.migrations} == dict(state.migrations)
    assert {d.address: d for d in stored.devices} == dict(state.devices)
    assert stored.specific == state.specific
    assert stored.topology == state.topology
    assert stored.failed_builds == state.failed_builds
    assert stored.disk_available_least == state.disk_available_least


def holds(store: Store, state: HostState) -> None:
    same(store.load(state.node.uuid), state)


def forgetful(state: HostState) -> HostState:
    """The same moment, as it would be to one that has lost every claim."""
    return replace(state, claims=Map(), owners=Map(), units=Map(), counters=Map(), usage=NOTHING)


class EnrollCases:
    def test_a_new_node_has_nothing(self, database: Database):
        stored = database.store().enroll(NODE.uuid, NODE.hypervisor_hostname, take_over)
        assert stored == Stored(node=NODE, revision=0, epoch=1)

    def test_the_rule_sees_who_wrote_before_and_what_is_stored_stays(self, database: Database):
        store = database.store()
        after = commit(store, enrolled(store), created(claim(1)))
        database.registry().heartbeat(NODE.host, NOW)
        seen = []

        def look(records):
            seen.extend(records)
            return take_over(records)

        stored = database.store().enroll(NODE.uuid, NODE.hypervisor_hostname, look)
        assert [(r.node, r.epoch, r.revision, r.writer) for r in seen] == [(NODE, 1, 1, WRITER)]
        assert [(r.last_seen_up, r.deleted_at) for r in seen] == [(NOW, None)]
        assert stored.epoch == 2
        same(stored, after)

    def test_a_record_is_found_by_its_hostname_too(self, database: Database):
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

    def test_a_record_of_another_name_is_not_seen(self, database: Database):
        other = replace(NODE, uuid=uuid(77), hypervisor_hostname=NODE.hypervisor_hostname.upper())
        store = database.store()
        store.enroll(other.uuid, other.hypervisor_hostname, rule(other, 1))
        seen = []

        def look(records):
            seen.extend(records)
            return take_over(records)

        store.enroll(NODE.uuid, NODE.hypervisor_hostname, look)
        assert seen == []

    def test_a_renamed_host_keeps_its_claims_under_its_new_name(self, database: Database):
        store = database.store()
        after = commit(store, enrolled(store), created(claim(1)))
        renamed = replace(NODE, host="other", hypervisor_hostname="hv2", host_ip="10.0.0.1")
        stored = store.enroll(NODE.uuid, "hv2", rule(renamed, 2))
        assert stored.node == renamed
        assert stored.claims == (replace(*after.claims.values(), host="other", node="hv2"),)

    def test_a_refusal_writes_nothing(self, database: Database):
        def refuse(_):
            raise IdentityError("no")

        store = database.store()
        state = enrolled(store)
        with pytest.raises(IdentityError):
            store.enroll(NODE.uuid, NODE.hypervisor_hostname, refuse)
        assert store.load(NODE.uuid).epoch == state.epoch


class CommitCases:
    def test_every_field_comes_back(self, database: Database):
        store = database.store()
        change = replace(
            created(odd_claim(1), claim(2)),
            holdings=(holding(1, occupancy=OCCUPIED), holding(2, active=False)),
            devices=(DEVICE, device(1)),
            specific=SPECIFIC,
            topology=TOPOLOGY,
            policy=POLICY,
            failed_builds=3,
            disk_available_least=-7,
        )
        after = commit(store, enrolled(store), change)
        stored = database.store().load(NODE.uuid)
        same(stored, after)
        assert stored.ratios.cpu == POLICY.cpu_allocation_ratio
        assert stored.ratios.ram == POLICY.ram_allocation_ratio
        assert stored.ratios.disk == POLICY.disk_allocation_ratio

    def test_host_facts_stay_when_claims_move(self, database: Database):
        store = database.store()
        state = commit(
            store,
            enrolled(store),
            Change(cause="audit", at=NOW, topology=TOPOLOGY, policy=POLICY, failed_builds=1),
        )
        after = commit(store, state, created(claim(1)))
        stored = store.load(NODE.uuid)
        same(stored, after)
        assert stored.ratios.cpu == POLICY.cpu_allocation_ratio

    def test_claims_move_and_end(self, database: Database):
        store = database.store()
        one, two = claim(1), claim(2)
        state = commit(store, enrolled(store), created(one, two))
        state = commit(store, state, moved(one, state=ACTIVE, expires_at=None, revision=2))
        holds(store, state)
        state = commit(store, state, released(two))
        holds(store, state)
        assert len(state.claims) == 1

    def test_holdings_come_change_and_go(self, database: Database):
        store = database.store()
        state = commit(
            store, enrolled(store), Change(cause="audit", at=NOW, holdings=(holding(1), holding(2)))
        )
        state = commit(
            store,
            state,
            Change(
                cause="audit",
                at=NOW,
                holdings=(holding(1, vcpus=9, name="n", occupancy=OCCUPIED), holding(3)),
                unholdings=(holding(2).domain_uuid,),
            ),
        )
        holds(store, state)
        assert len(state.holdings) == 2

    def test_another_revision_is_a_conflict_and_writes_nothing(self, database: Database):
        store = database.store()
        old = enrolled(store)
        state = commit(store, old, created(claim(1)))
        change = replace(
            created(claim(2)), holdings=(holding(1),), operations=(operation("later"),)
        )
        with pytest.raises(RevisionConflict):
            commit(store, old, change)
        holds(store, state)
        assert store.operation(NODE.uuid, "later") is None
        assert len(store.history(NODE.uuid)) == 1

    def test_a_newer_writer_fences_the_older(self, database: Database):
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
        assert first.epoch(NODE.uuid) == new.epoch
        holds(second, commit(second, new, created(claim(2))))

    def test_fencing_is_told_before_a_revision_conflict(self, database: Database):
        first, second = database.store(), database.store()
        old = enrolled(first)
        commit(second, enrolled(second), created(claim(1)))
        with pytest.raises(WriterFenced):
            commit(first, old, created(claim(2)))

    def test_nodes_do_not_meet(self, database: Database):
        other = replace(NODE, uuid=uuid(55), hypervisor_hostname="hv55")
        store = database.store()
        state = enrolled(store)
        theirs = state_of(store.enroll(other.uuid, "hv55", rule(other, 9)))
        change = replace(
            created(replace(claim(5), node_uuid=other.uuid, node="hv55")),
            operations=(operation("shared"),),
            holdings=(holding(1),),
        )
        theirs = commit(store, theirs, change)
        mine = commit(
            store,
            state,
            replace(created(claim(1)), operations=(operation("shared"),), holdings=(holding(1),)),
        )
        holds(store, mine)
        holds(store, theirs)
        assert len(store.history(other.uuid)) == 1

    def test_a_claims_uuid_is_one_in_the_whole_database(self, database: Database):
        other = replace(NODE, uuid=uuid(55), hypervisor_hostname="hv55")
        store = database.store()
        state = commit(store, enrolled(store), created(claim(1)))
        theirs = state_of(store.enroll(other.uuid, "hv55", rule(other, 9)))
        with pytest.raises(ChangeRejected) as caught:
            commit(store, theirs, created(replace(claim(1), node_uuid=other.uuid, node="hv55")))
        assert caught.value.kwargs["taken"]
        holds(store, state)

    def test_reload_raises_the_epoch_and_reads_all(self, database: Database):
        store = database.store()
        state = commit(store, enrolled(store), created(claim(1)))
        stored = store.reload(NODE.uuid, state.epoch)
        assert stored.epoch == state.epoch + 1
        same(stored, state)
        with pytest.raises(WriterFenced):
            commit(store, state, created(claim(2)))
        holds(store, commit(store, state_of(stored), created(claim(2))))

    def test_a_reload_whose_answer_was_lost_does_not_fence_itself(self, database: Database):
        store = database.store()
        state = commit(store, enrolled(store), created(claim(1)))
        for _ in range(2):
            store.reload(NODE.uuid, state.epoch)
        stored = store.reload(NODE.uuid, state.epoch)
        assert stored.epoch == state.epoch + 3
        enrolled(database.store())
        with pytest.raises(WriterFenced):
            store.reload(NODE.uuid, state.epoch)

    def test_reload_of_a_fenced_writer_says_so(self, database: Database):
        store = database.store()
        old = enrolled(store)
        enrolled(database.store())
        with pytest.raises(WriterFenced):
            store.reload(NODE.uuid, old.epoch)


class BatchCases:
    def test_a_claim_that_moves_twice_is_kept_as_it_ends(self, database: Database):
        store = database.store()
        one = claim(1)
        active = replace(one, state=ACTIVE, expires_at=None, revision=2)
        changes = (
            created(one),
            moved(one, state=ACTIVE, expires_at=None, revision=2),
            moved(active, suspect="gone", revision=3),
        )
        state = commit(store, enrolled(store), *changes)
        assert state.revision == 3
        holds(store, state)
        assert [e.action for e in store.history(NODE.uuid)] == ["create", "activate", "activate"]

    def test_a_claim_made_and_ended_at_once_leaves_its_record(self, database: Database):
        store = database.store()
        one = claim(1)
        state = commit(store, enrolled(store), created(one), released(one))
        assert store.load(NODE.uuid).claims == ()
        assert [e.after.state for e in store.history(NODE.uuid, one.uuid)] == [
            one.state,
            RELEASED,
        ]
        with pytest.raises(ChangeRejected):
            commit(store, state, replace(created(one), operations=()))

    def test_a_claim_changed_and_then_ended_at_once(self, database: Database):
        store = database.store()
        one = claim(1)
        state = commit(store, enrolled(store), created(one))
        active = replace(one, state=ACTIVE)
        state = commit(store, state, moved(one, state=ACTIVE), released(active))
        holds(store, state)

    def test_a_holding_that_comes_and_goes_at_once_leaves_nothing(self, database: Database):
        store = database.store()
        came = Change(cause="audit", at=NOW, holdings=(holding(1),))
        went = Change(cause="audit", at=NOW, unholdings=(holding(1).domain_uuid,))
        state = commit(store, enrolled(store), came, went)
        holds(store, state)
        state = commit(store, state, came)
        state = commit(store, state, went, came)
        holds(store, state)
        assert len(state.holdings) == 1

    def test_sixteen_changes_are_one_commit(self, database: Database):
        store = database.store()
        state = commit(store, enrolled(store), *(created(claim(n)) for n in range(16)))
        assert state.revision == 16
        holds(store, state)


class UnitCases:
    def test_units_come_move_and_go(self, database: Database):
        store = database.store()
        one, two = pinned(1, 4, 5), pinned(2, 6)
        state = commit(store, enrolled(store), created(one, two, claim(3)))
        there = pinned(1, 5, 7)
        state = commit(store, state, moved(one, numa_topology=there.numa_topology))
        holds(store, state)
        state = commit(store, state, created(pinned(4, 4)))
        state = commit(store, state, released(two))
        state = commit(store, state, created(pinned(5, 6)))
        holds(store, state)
        assert {name: owner for (_, name), owner in state.units.items()} == {
            "4": pinned(4).owner_id,
            "5": one.owner_id,
            "6": pinned(5).owner_id,
            "7": one.owner_id,
        }

    def test_a_unit_passes_from_one_owner_to_the_next_in_one_commit(self, database: Database):
        store = database.store()
        one, two = pinned(1, 4, 5), pinned(2, 5, 4)
        state = commit(store, enrolled(store), created(one))
        state = commit(
            store, state, released(one), created(two), released(two), created(pinned(3, 4))
        )
        holds(store, state)
        assert set(state.units.values()) == {pinned(3).owner_id}

    def test_claims_of_one_owner_share_a_unit(self, database: Database):
        store = database.store()
        here = pinned(1, 4, 5)
        there = pinned(2, 5, 6, owner_id=here.owner_id)
        state = commit(store, enrolled(store), created(here), created(there))
        holds(store, state)
        state = commit(store, state, released(here))
        holds(store, state)
        with pytest.raises(ChangeRejected):
            commit(store, forgetful(state), created(pinned(3, 5)))
        state = commit(store, state, created(pinned(3, 4)), released(there))
        state = commit(store, state, created(pinned(4, 5)))
        holds(store, state)

    def test_two_owners_of_one_unit_are_refused_by_the_store_itself(self, database: Database):
        """A decision that knew nothing of the first: the keys know."""
        store = database.store()
        state = commit(store, enrolled(store), created(pinned(1, 4)))
        with pytest.raises(ChangeRejected):
            commit(store, forgetful(state), created(claim(3), pinned(2, 3, 4)))
        holds(store, state)
        assert store.operation(NODE.uuid, pinned(2).uuid) is None
        holds(store, commit(store, state, created(pinned(2, 3))))

    def test_a_unit_is_not_freed_while_a_claim_holds_it(self, database: Database):
        store = database.store()
        one, two = pinned(1, 4), pinned(2, 5)
        state = commit(store, enrolled(store), created(one, two))
        # The first claim's end, from a state that believes that it never had its own row.
        wrong = replace(state, claims=state.claims.delete(one.uuid).set(two.uuid, pinned(2, 4)))
        after = replace(forgetful(state), revision=state.revision + 1)
        with pytest.raises(ChangeRejected):
            store.commit(wrong, after, [moved(two)])
        holds(store, state)

    def test_other_nodes_have_the_same_units(self, database: Database):
        other = replace(NODE, uuid=uuid(55), hypervisor_hostname="hv55")
        store = database.store()
        mine = commit(store, enrolled(store), created(pinned(1, 4)))
        theirs = state_of(store.enroll(other.uuid, "hv55", rule(other, 9)))
        guest = pinned(2, 4, node_uuid=other.uuid, node="hv55")
        holds(store, commit(store, theirs, created(guest)))
        holds(store, mine)

    def test_the_end_of_a_claim_frees_it_for_good(self, database: Database):
        store = database.store()
        one = pinned(1, 4)
        state = commit(store, enrolled(store), created(one), released(one))
        state = commit(store, state, created(pinned(2, 4)), released(pinned(2, 4)))
        assert store.purge(NODE.uuid, NOW + timedelta(days=1)) == 4
        holds(store, commit(store, state, created(replace(one, owner_id=uuid(9)))))


class OperationCases:
    def test_an_operation_is_remembered(self, database: Database):
        store = database.store()
        commit(store, enrolled(store), created(claim(1)))
        one = claim(1).uuid
        assert store.operation(NODE.uuid, one) == operation(one, claim_uuid=one)
        assert store.operation(NODE.uuid, "never") is None
        assert store.operation(uuid(99), one) is None

    def test_ids_differ_by_case(self, database: Database):
        store = database.store()
        commit(store, enrolled(store), Change(cause="x", at=NOW, operations=(operation("abc"),)))
        assert store.operation(NODE.uuid, "ABC") is None

    @pytest.mark.parametrize("second", ["another commit", "the same commit"])
    def test_an_id_used_twice_is_rejected_whole(self, database: Database, second: str):
        store = database.store()
        state = enrolled(store)
        again = replace(created(claim(2)), operations=(operation(claim(1).uuid),))
        if second == "another commit":
            state = commit(store, state, created(claim(1)))
            changes: tuple[Change, ...] = (again,)
        else:
            changes = (created(claim(1)), again)
        with pytest.raises(ChangeRejected):
            commit(store, state, *changes)
        holds(store, state)
        assert len(store.history(NODE.uuid)) == len(state.claims)

    def test_an_ended_id_is_kept_once_and_never_an_error(self, database: Database):
        store = database.store()
        state = enrolled(store)
        for _ in range(2):
            abort = Change(cause="abort", at=NOW, operations=(ended("x"), ended("y")))
            state = commit(store, state, abort, abort)
        assert store.operation(NODE.uuid, "x") == ended("x")
        assert store.operation(NODE.uuid, "y") == ended("y")

    def test_an_ended_id_does_not_replace_the_call_of_that_id(self, database: Database):
        store = database.store()
        first = Change(cause="x", at=NOW, operations=(operation("x"),))
        end = Change(cause="abort", at=NOW, operations=(ended("x"), ended("z")))
        state = commit(store, enrolled(store), first, end)
        commit(store, state, end)
        assert store.operation(NODE.uuid, "x") == operation("x")
        assert store.operation(NODE.uuid, "z") == ended("z")

    @pytest.mark.parametrize("together", [True, False])
    def test_a_call_after_its_own_abort_is_rejected(self, database: Database, together: bool):
        store = database.store()
        state = enrolled(store)
        end = Change(cause="abort", at=NOW, operations=(ended("x"),))
        late = Change(cause="x", at=NOW, operations=(operation("x"),))
        changes = (end, late) if together else (late,)
        if not together:
            state = commit(store, state, end)
        with pytest.raises(ChangeRejected):
            commit(store, state, *changes)


class RestCases:
    def test_history_is_complete_and_in_order(self, database: Database):
        store = database.store()
        one = claim(1, pcpus=3)
        state = commit(store, enrolled(store), created(one))
        commit(store, state, moved(one, state=ACTIVE, suspect="why"))
        was = ClaimFacts(
            state="building", suspect=None, vcpus=2, pcpus=3, memory_mb=1024, disk_mb=20480
        )
        common: dict[str, Any] = {"claim_uuid": one.uuid, "node_uuid": NODE.uuid, "at": NOW}
        assert store.history(NODE.uuid, one.uuid) == (
            ClaimEvent(
                **common,
                action="create",
                actor=ODD,
                request_id="req-1",
                before=None,
                after=was,
                reason="",
            ),
            ClaimEvent(
                **common,
                action="activate",
                actor="",
                request_id="",
                before=was,
                after=replace(was, state="active", suspect="why"),
                reason=ODD,
            ),
        )
        assert store.history(NODE.uuid, uuid(5)) == ()

    def test_purge_forgets_what_is_old_and_nothing_that_lives(self, database: Database):
        store = database.store()
        old, new = NOW - timedelta(days=2), NOW
        live, gone, late = (claim(n, created_at=old, updated_at=old) for n in (1, 2, 3))
        state = commit(store, enrolled(store), created(live, gone, late, at=old))
        state = commit(store, state, released(gone, at=old), released(late, at=new))
        state = commit(store, state, Change(cause="x", at=new, operations=(operation("new"),)))
        assert store.purge(NODE.uuid, NOW - timedelta(days=1)) == 4
        assert store.purge(NODE.uuid, NOW - timedelta(days=1)) == 0
        holds(store, state)
        assert store.operation(NODE.uuid, live.uuid) is None
        assert store.operation(NODE.uuid, "new") == operation("new")
        commit(store, state, replace(created(gone), operations=()))
        with pytest.raises(ChangeRejected):
            commit(store, state_of(store.load(NODE.uuid)), replace(created(late), operations=()))

    def test_heartbeats(self, database: Database):
        registry = database.registry()
        first = registry.heartbeat("b", NOW)
        assert (first.report_count, first.last_seen_up, first.disabled) == (1, NOW, False)
        later = NOW + timedelta(microseconds=1)
        assert registry.heartbeat("b", later) == replace(first, report_count=2, last_seen_up=later)
        registry.heartbeat("a", NOW)
        assert [s.host for s in registry.services()] == ["a", "b"]

    def test_a_host_is_disabled_and_enabled(self, database: Database):
        registry = database.registry()
        registry.heartbeat("a", NOW)
        assert registry.set_disabled("a", True, ODD).disabled_reason == ODD
        beat = database.registry().heartbeat("a", NOW)
        assert (beat.disabled, beat.disabled_reason, beat.report_count) == (True, ODD, 2)
        assert not registry.set_disabled("a", False, None).disabled
        assert registry.set_disabled("new", True, "r").report_count == 0


class DeviceCases:
    def test_devices_come_change_and_go(self, database: Database):
        store = database.store()
        state = commit(store, enrolled(store), devices(device(1), device(2), DEVICE))
        holds(store, state)
        state = commit(store, state, devices(device(1, present=False), device(3)))
        state = commit(store, state, devices(removals=[DEVICE.address]))
        holds(store, state)
        assert sorted(state.devices) == ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]

    def test_a_device_that_goes_and_comes_in_one_commit(self, database: Database):
        store = database.store()
        state = commit(store, enrolled(store), devices(device(1)))
        gone, back = devices(removals=[device(1).address]), devices(device(1, quarantine="why"))
        holds(store, commit(store, state, gone, back))

    def test_two_owners_of_one_device_are_refused_by_the_store_itself(self, database: Database):
        store = database.store()
        state = commit(store, enrolled(store), devices(device(1)), created(given(1, device(1))))
        with pytest.raises(ChangeRejected):
            commit(store, forgetful(state), created(given(2, device(1))))
        holds(store, state)


class StoreCases(
    EnrollCases, CommitCases, BatchCases, UnitCases, DeviceCases, OperationCases, RestCases
):
    """All of it."""
