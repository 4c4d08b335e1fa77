"""The methods that delete allocations."""

import pytest

from rtagent.errors import ClaimConflict, PlacementUnavailable
from rtagent.model.deletion_reason import DeletionReason
from tests.support.hosts import uid
from tests.support.rpc import Agent, operation


@pytest.mark.parametrize("reason", list(DeletionReason))
def test_an_allocation_is_deleted_once_for_each_operation(agent: Agent, reason: DeletionReason):
    instance = uid()
    call = {"instance_uuid": instance} | operation()
    for _ in range(2):
        assert agent.invoke(reason.method, **call) is None
    assert agent.deleted == [(instance, reason)]
    agent.invoke(reason.method, instance_uuid=instance, **operation())
    assert agent.deleted == [(instance, reason)] * 2
    with pytest.raises(ClaimConflict):
        agent.invoke(reason.method, **call | {"instance_uuid": uid()})


def test_a_call_that_failed_is_made_again_when_it_is_repeated(agent: Agent):
    call = {"instance_uuid": uid()} | operation()
    agent.placement_error = PlacementUnavailable("gone")
    with pytest.raises(PlacementUnavailable):
        agent.invoke("delete_allocation_for_evacuated_instance", **call)
    agent.placement_error = None
    agent.invoke("delete_allocation_for_evacuated_instance", **call)
    assert len(agent.deleted) == 1
