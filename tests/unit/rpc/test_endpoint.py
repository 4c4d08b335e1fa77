"""Dispatch: validation, the node check, reports, errors, contexts."""

import json

import jsonschema
import pytest
from oslo_context.context import RequestContext

from rtagent.errors import InvalidRequest, NodeNotFound, NodeNotReady
from rtagent.rpc import schemas
from rtagent.rpc.methods import METHODS
from tests.support.hosts import NODE, uid
from tests.support.rpc import Agent, build, claim_change, documents


def test_replies_are_json_and_match_their_schemas(agent: Agent):
    calls = documents()
    assert set(calls) == set(METHODS)
    agent.start_orphan()
    for name, arguments in calls.items():
        reply = agent.invoke(name, **arguments, node=NODE.hypervisor_hostname)
        assert json.loads(json.dumps(reply)) == reply
        jsonschema.validate(reply, schemas.reply(METHODS[name]))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_calls_for_another_node_are_refused_and_not_recorded(agent: Agent, name: str):
    document, other, before = documents()[name], uid(), agent.tracker.snapshot()
    for given, served in (
        ({"node": "elsewhere"}, NODE.hypervisor_hostname),
        ({"node_uuid": other}, NODE.uuid),
    ):
        with pytest.raises(NodeNotFound) as refused:
            agent.invoke(name, **document, **given)
        (node,) = given.values()
        assert refused.value.kwargs == {"node": node, "served": served}
    assert agent.tracker.snapshot() is before


def test_repeated_refusals_do_not_grow_the_traceback(agent: Agent):
    def frames_of_a_refusal() -> int:
        with pytest.raises(NodeNotReady) as refused:
            agent.invoke("instance_claim", **build())
        return len(refused.traceback)

    agent.tracker.creation.suspend(NodeNotReady())
    assert frames_of_a_refusal() == frames_of_a_refusal()


def test_user_and_request_id_are_in_the_history(agent: Agent):
    context = RequestContext(user_id="alice", global_request_id=f"req-{uid()}", overwrite=False)
    claim = agent.invoke_as(context, "instance_claim", **build())
    local = RequestContext(user_id=None, overwrite=False)
    agent.invoke_as(local, "activate_claim", **claim_change(claim))
    created, activated = agent.memory.history(NODE.uuid, claim["uuid"])
    assert (created.actor, created.request_id) == ("alice", context.global_request_id)
    assert (activated.actor, activated.request_id) == ("", local.request_id)


def test_calls_in_flight_are_counted(agent: Agent):
    seen = []
    agent.hypervisor.between = lambda _step: seen.append(str(agent.in_flight))
    agent.invoke("update_available_resource")
    assert seen and all(text.startswith("update_available_resource (req-") for text in seen)
    assert len(agent.in_flight) == 0


def test_time_and_outcome_are_reported(agent: Agent):
    agent.invoke("ping")
    with pytest.raises(InvalidRequest):
        agent.invoke("ping", nonsense=1)
    assert agent.sample("rpc_seconds_count", method="ping") == 2
    assert agent.sample("rpc_total", outcome="ok") == 1
    assert agent.sample("rpc_total", outcome="InvalidRequest") == 1
