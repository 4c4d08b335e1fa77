"""The methods that delete allocations."""

import pytest

from rtagent.errors import ClaimConflict, PlacementUnavailable
from rtagent.model.departure import Departure
from tests.support.hosts import uid
from tests.support.rpc import Agent, operation


@pytest.mark.parametrize("departure", list(Departure))
def test_an_allocation_is_deleted_once_for_each_operation(agent: Agent, departure: Departure):
    instance = uid()
    call = {"instance_uuid": instance} | operation()
    for _ in range(2):
        assert agent.invoke(departure.method, **call) is None
    assert agent.deleted == [(instance, departure)]
    agent.invoke(departure.method, instance_uuid=instance, **operation())
    assert agent.deleted == [(instance, departure)] * 2
    with pytest.raises(ClaimConflict):
        agent.invoke(departure.method, **call | {"instance_uuid": uid()})


def test_a_call_that_failed_is_made_again_when_it_is_repeated(agent: Agent):
    call = {"instance_uuid": uid()} | operation()
    agent.placement_error = PlacementUnavailable("gone")
    with pytest.raises(PlacementUnavailable):
        agent.invoke("delete_allocation_for_evacuated_instance", **call)
    agent.placement_error = None
    agent.invoke("delete_allocation_for_evacuated_instance", **call)
    assert len(agent.deleted) == 1
