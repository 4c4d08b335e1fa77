"""Calls that create a claim wait for its allocation, and no others do."""

import pytest

from rtagent.errors import AllocationNotWritten
from rtagent.rpc.methods import METHODS
from tests.support.rpc import Agent, build, documents

CREATING = {
    "instance_claim",
    "instance_claims",
    "resize_claim",
    "live_migration_claim",
    "rebuild_claim",
    "claim_pci_devices",
}


def test_exactly_the_calls_that_create_a_claim_wait_for_its_allocation(agent: Agent):
    waited = set()
    agent.start_orphan()
    for name, arguments in documents().items():
        before = len(agent.confirmed)
        agent.invoke(name, **arguments)
        calls, made = arguments.get("claims", [arguments]), METHODS[name].batch_of or name
        for asked, confirmed in zip(calls, agent.confirmed[before:], strict=False):
            assert confirmed == (asked["operation_id"], made)
            waited.add(name)
    assert waited == CREATING


def test_the_caller_gets_the_error_of_an_allocation_that_was_not_written(agent: Agent):
    error = AllocationNotWritten(claim_uuid="c", seconds=1, why="it is down", effect="aborted")
    agent.confirm_error = error
    with pytest.raises(AllocationNotWritten, match="new operation id") as raised:
        agent.invoke("instance_claim", **build())
    assert raised.value.retriable
