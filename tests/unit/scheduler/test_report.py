"""Reports of a node: which of its instances are made anew."""

from msgspec.structs import replace

from rtagent.model.change import Change
from rtagent.model.claim import LIVE_MIGRATION, OUTGOING
from rtagent.model.node_state import NodeState
from rtagent.scheduler.report import instances_of
from tests.support.stored_values import (
    NODE,
    NOW,
    POLICY,
    changed,
    claim,
    created,
    domain_usage,
    folded,
    migration,
    released,
)

ONE, TWO = claim(1), claim(2)
STATE = folded(NodeState(node=NODE, policy=POLICY), created(ONE, TWO))


def new_objects(before, after):
    """The instances of the later state that are not the objects of the earlier one."""
    known = instances_of(before)
    now = instances_of(after, known)
    assert now == instances_of(after)
    return [info.uuid for info in now.values() if known.get(info.uuid) is not info]


def test_only_the_instance_of_a_changed_claim_is_made_anew():
    assert new_objects(STATE, STATE) == []
    assert new_objects(STATE, folded(STATE, changed(ONE, tag="t"))) == [ONE.owner_id]


def test_instance_that_came_is_new_and_one_that_left_is_absent():
    after = folded(STATE, released(ONE), created(claim(3)))
    assert new_objects(STATE, after) == [claim(3).owner_id]


def test_instance_whose_domain_was_observed_is_made_anew():
    seen = replace(domain_usage(1), domain_uuid=ONE.owner_id)
    after = folded(STATE, Change(cause="audit", at=NOW, domain_usages=(seen,)))
    assert new_objects(STATE, after) == [ONE.owner_id]


def test_instance_whose_move_has_ended_is_made_anew_although_its_claims_are_the_same():
    def move(status):
        fields = {"instance_uuid": ONE.owner_id, "migration_type": LIVE_MIGRATION}
        record = migration(1, status=status, **fields)
        return Change(cause="move", at=NOW, migrations=(record,))

    leaves = changed(ONE, state=OUTGOING, migration_uuid=migration(1).uuid)
    before = folded(STATE, move("running"), leaves)
    after = folded(before, move("completed"))
    assert instances_of(before)[ONE.owner_id].here
    assert not instances_of(after, instances_of(before))[ONE.owner_id].here
