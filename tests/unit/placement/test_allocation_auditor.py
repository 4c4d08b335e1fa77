"""Audits of the allocations on a node's providers."""

import pytest

from rtagent.errors import PlacementConflict
from rtagent.model.policy import ManageAllocations
from rtagent.placement.allocation_audit import AllocationVerdict
from tests.support.agents import GUEST, LARGE, OTHER, facts
from tests.support.audited_nodes import TERM
from tests.support.hosts import uid

YES = ManageAllocations.YES
AMOUNTS = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 1}


def test_an_audit_gives_way_before_each_provider_and_each_correction(make_node):
    node = make_node(YES)
    node.agent.release(node.agent.run())
    node.run()
    node.allocate(GUEST, AMOUNTS)
    allocated = []
    node.more_urgent = lambda: allocated.append(bool(node.parts(GUEST)))
    node.settle()
    assert allocated == [True] * 3  # two audits of one provider, and one correction
    assert not node.parts(GUEST)


def test_other_quantities_are_reported_and_stay_if_others_write_allocations(node):
    node.agent.run()
    node.allocate(GUEST, {**AMOUNTS, "VCPU": 2})
    (finding,) = node.settle().settled
    assert (finding.verdict, finding.instance_uuid) == (AllocationVerdict.DIFFERENT, GUEST)
    assert finding.reason == "its claim has DISK_GB 1, MEMORY_MB 1024, VCPU 1"
    assert node.enqueued == []
    assert node.parts(GUEST)[node.uuid]["VCPU"] == 2


def test_other_and_missing_quantities_are_written_again_if_the_agent_manages_allocations(make_node):
    node = make_node(YES)
    node.agent.run()
    node.agent.run(owner=OTHER)
    node.allocate(GUEST, {**AMOUNTS, "VCPU": 2})
    assert node.settle().rewritten == tuple(sorted([GUEST, OTHER]))
    assert sorted(node.enqueued) == sorted([GUEST, OTHER])


def test_what_is_in_the_outbox_is_left_to_it(make_node):
    node = make_node(YES)
    node.agent.run()
    node.agent.release(node.agent.run(owner=OTHER))
    node.allocate(OTHER, AMOUNTS)
    assert {GUEST, OTHER} == set(node.agent.state.outbox)
    node.run(drained=False)
    node.agent.clock.advance(TERM)
    report = node.run(drained=False)
    assert (report.counts, report.rewritten) == ({AllocationVerdict.MATCHING: 1}, ())
    assert node.settle().rewritten == (GUEST,)
    assert GUEST in node.agent.state.outbox


def test_the_last_part_on_a_shared_disk_is_removed_with_the_others(node):
    shared, elsewhere = node.other_host(), node.other_host()
    node.share_disk(shared)
    for owner, parts in ((GUEST, {}), (OTHER, {elsewhere: {"VCPU": 1}})):
        node.agent.release(node.agent.build(owner=owner))
        node.write(owner, {node.uuid: {"VCPU": 1}, shared: {"DISK_GB": 1}, **parts})
    node.settle()
    assert node.parts(GUEST) == {}
    assert node.parts(OTHER) == {elsewhere: {"VCPU": 1}, shared: {"DISK_GB": 1}}


def test_an_allocation_is_removed_only_after_it_has_not_changed_for_the_term(node):
    """An allocation is written before its claim is made."""
    node.agent.release(node.agent.build())
    node.allocate(GUEST, AMOUNTS)
    report = node.run()
    assert (report.removed, report.settled) == ((), ())
    assert report.recheck == node.agent.clock.monotonic() + TERM
    node.agent.clock.advance(TERM - 1)
    assert node.run().removed == ()
    node.write(GUEST, {node.uuid: {**AMOUNTS, "VCPU": 2}})
    node.agent.clock.advance(1)
    assert node.run().removed == ()
    node.restart()
    node.agent.clock.advance(TERM)
    assert node.run().removed == ()
    node.agent.clock.advance(TERM)
    assert node.run().removed == (GUEST,)


@pytest.mark.parametrize(("manage", "removed"), [(ManageAllocations.NO, ()), (YES, (GUEST,))])
def test_a_lapsed_lease_is_no_statement_of_the_caller(make_node, manage, removed):
    node = make_node(manage)
    node.agent.build()
    node.allocate(GUEST, AMOUNTS)
    node.agent.clock.advance(TERM + 1)
    node.agent.audit()
    assert node.agent.states() == []
    report = node.settle()
    assert report.removed == removed
    if not removed:
        (finding,) = report.settled
        assert finding.reason.endswith("has ended: expire")


def test_the_domain_of_an_ended_claim_keeps_its_allocation(node):
    claim = node.agent.run()
    node.allocate(GUEST, AMOUNTS)
    node.agent.release(claim)
    node.agent.audit()
    (finding,) = node.settle().settled
    assert finding.reason.endswith("its domain is still here")
    assert node.parts(GUEST)


def test_what_is_allocated_without_a_claim_is_reported(node):
    node.agent.run()
    for consumer in (GUEST, OTHER):
        node.allocate(consumer, AMOUNTS)
    node.allocate(uid(), {"VCPU": 1}, node.other_host())
    assert node.run().unclaimed == {OTHER: AMOUNTS}


@pytest.mark.parametrize("manage", list(ManageAllocations))
def test_an_unknown_consumer_is_never_touched(make_node, manage):
    node = make_node(manage)
    node.allocate(OTHER, AMOUNTS)
    assert node.verdicts() == {OTHER: AllocationVerdict.UNKNOWN}
    node.agent.clock.advance(1e6)
    node.run()
    assert node.parts(OTHER) == {node.uuid: AMOUNTS}


# -- races ----------------------------------------------------------------------------------------


def ended(node):
    """An ended claim whose allocation is due to be removed."""
    node.agent.release(node.agent.build())
    node.allocate(GUEST, AMOUNTS)
    node.run()
    node.agent.clock.advance(TERM)


@pytest.mark.parametrize("since", ["the audit", "its last request"])
def test_nothing_is_changed_while_the_records_may_be_incomplete(node, since):
    ended(node)
    if since == "the audit":
        node.trusted = False
    node.meddler.before["consumer"] = lambda: setattr(node, "trusted", False)
    (finding,) = node.run().settled
    assert finding.removable
    assert node.parts(GUEST)


@pytest.mark.parametrize("request_", ["tree", "allocations", "consumer", "put_consumer"])
def test_a_claim_that_is_made_meanwhile_keeps_its_allocation(node, request_):
    ended(node)
    node.meddler.before[request_] = node.agent.build
    node.meddler.requests.clear()
    assert node.run().removed == ()
    # Where the claim was there before the write, there is none: the guest keeps its allocation.
    assert ("put_consumer" in node.meddler.requests) == (request_ == "put_consumer")
    assert node.parts(GUEST) == {node.uuid: AMOUNTS}
    assert node.settle().counts == {AllocationVerdict.MATCHING: 1}


@pytest.mark.parametrize("request_", ["tree", "allocations", "consumer", "put_consumer"])
def test_an_allocation_that_is_written_meanwhile_stays(node, request_):
    ended(node)
    new = {**AMOUNTS, "VCPU": 2}
    node.meddler.before[request_] = lambda: node.write(GUEST, {node.uuid: new})
    assert node.run().removed == ()
    assert node.parts(GUEST) == {node.uuid: new}


def test_a_refused_removal_costs_one_consumer_only(node):
    node.agent.release(node.agent.build())
    node.agent.release(node.agent.build(owner=OTHER))
    for each in (GUEST, OTHER):
        node.allocate(each, AMOUNTS)
    node.run()
    node.agent.clock.advance(TERM)
    refused = []

    def refuse_first():
        refused.append(True)
        raise PlacementConflict("no")

    node.meddler.before["put_consumer"] = refuse_first
    report = node.run()
    assert refused
    assert (len(report.removed), report.problems) == (1, (f"{GUEST}: no",))
    assert node.run().removed == (GUEST,)


# -- moves ----------------------------------------------------------------------------------------


def test_allocations_of_building_and_moving_guests_are_never_removed(make_node):
    node = make_node(YES)
    node.agent.build(owner=OTHER)
    node.allocate(OTHER, {"VCPU": 2})
    node.agent.run()
    move = facts()
    node.allocate(GUEST, AMOUNTS)
    node.agent.claim_move(move, LARGE)
    node.allocate(move.uuid, AMOUNTS)
    for _ in range(2):
        report = node.settle()
        assert report.counts == {AllocationVerdict.MATCHING: 3}
        assert (report.settled, node.enqueued) == ((), [])
        node.agent.move("start_move_out", move)


def test_a_migration_whose_guest_has_left_gives_its_allocation_up(node):
    node.agent.run()
    move = facts()
    node.agent.move("start_move_out", move)
    node.allocate(move.uuid, AMOUNTS)
    assert node.settle().counts == {AllocationVerdict.MATCHING: 1}
    node.agent.world.destroy(GUEST)
    node.agent.move("drop_move_claim_at_source", move)
    assert node.settle().removed == (move.uuid,)


def test_a_reverted_migration_keeps_its_allocation_until_the_guest_has_its_own_again(node):
    node.agent.run()
    move = facts()
    node.agent.claim_move(move, LARGE)
    node.agent.move("start_move_out", move)
    node.allocate(move.uuid, AMOUNTS)
    node.agent.move("drop_move_claim_at_dest", move)
    assert node.settle().counts == {AllocationVerdict.MATCHING: 1}
    node.agent.move("finish_revert", move)
    (finding,) = node.settle().settled
    assert "does not have its own allocation again" in finding.reason
    node.allocate(GUEST, AMOUNTS)
    assert node.run().removed == (move.uuid,)
    assert node.parts(GUEST) == {node.uuid: AMOUNTS}


@pytest.mark.parametrize(("manage", "removed"), [(ManageAllocations.NO, False), (YES, True)])
def test_a_migration_whose_lease_has_lapsed_is_not_the_agents_to_end(make_node, manage, removed):
    node = make_node(manage)
    node.agent.run()
    move = facts()
    node.agent.claim_move(move, LARGE)
    node.allocate(GUEST, AMOUNTS)
    node.allocate(move.uuid, AMOUNTS)
    node.agent.clock.advance(TERM + 1)
    node.agent.world.destroy(GUEST)
    node.agent.audit()
    assert node.agent.states() == ["active"]
    assert (move.uuid in node.settle().removed) is removed


def test_an_audit_of_many_consumers_needs_two_requests(node):
    node.agent.run()
    node.allocate(GUEST, AMOUNTS)
    others = {"resources": {"MEMORY_MB": 1}}
    owner = {"consumer_type": "INSTANCE", "project_id": "p", "user_id": "u"}
    content = {"allocations": {node.uuid: others}, "consumer_generation": None, **owner}
    node.api.post_consumers({uid(): content for _ in range(1000)})
    node.meddler.requests.clear()
    report = node.run()
    assert report.counts == {AllocationVerdict.MATCHING: 1, AllocationVerdict.UNKNOWN: 1000}
    assert node.meddler.requests == ["tree", "allocations"]
