"""Every RPC method, fuzzed from its schema."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtagent.errors import InvalidRequest, RtAgentError
from rtagent.rpc import schemas
from rtagent.rpc.methods import METHODS
from tests.rpc_agents import Agent
from tests.rpc_documents import invalid, valid

NAMES = sorted(METHODS)


@pytest.fixture(scope="module")
def agent() -> Agent:
    return Agent()


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_an_invalid_document_changes_nothing_and_every_offence_is_named(
    name: str, agent: Agent, data: st.DataObject
):
    document, paths = data.draw(invalid(schemas.arguments(METHODS[name])))
    before = agent.tracker.snapshot()
    with pytest.raises(InvalidRequest) as refused:
        agent.invoke(name, **document)
    assert refused.value.kwargs["method"] == name
    assert {error["path"] for error in refused.value.kwargs["errors"]} == paths
    assert agent.tracker.snapshot() is before
    assert agent.store.calls["commit"] == before.revision


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_a_valid_document_is_never_called_invalid(name: str, agent: Agent, data: st.DataObject):
    root = schemas.arguments(METHODS[name])
    document = data.draw(valid(root, root))
    try:
        agent.invoke(name, **document)
    except RtAgentError as error:
        assert error.expected and not isinstance(error, InvalidRequest)
    agent.tracker.snapshot().check()
