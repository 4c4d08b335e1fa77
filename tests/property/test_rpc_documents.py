"""Documents for every RPC method, generated from its schema."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtagent.errors import InvalidFlavor, InvalidPciRequest, InvalidRequest, RtAgentError
from rtagent.rpc import schemas
from rtagent.rpc.method import Method
from rtagent.rpc.methods import METHODS, SCHEDULER_API
from rtagent.rpc.schemas import validate
from tests.support.rpc import Agent
from tests.support.rpc_documents import invalid, valid

NAMES = sorted(METHODS)
#: Those with arguments, without the report of a host, whose schema is open.
OF_SCHEDULERS = [
    name
    for name, method in SCHEDULER_API.methods.items()
    if method.arguments.__struct_fields__ and name != "update_host_state"
]
#: Examples for each method. Methods share most of their fields, so each field gets many more.
EXAMPLES = settings.default.max_examples // 4


@cache
def invalid_arguments(method: Method) -> st.SearchStrategy[Any]:
    """Strategies are made once, because that takes longer than to draw an example."""
    return invalid(schemas.arguments(method))


@cache
def valid_arguments(method: Method) -> st.SearchStrategy[Any]:
    root = schemas.arguments(method)
    return valid(root, root)


@pytest.fixture(scope="module")
def agent() -> Agent:
    return Agent()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_an_invalid_document_is_refused_with_every_offending_path(name: str, agent: Agent, data):
    document, paths = data.draw(invalid_arguments(METHODS[name]))
    before = agent.tracker.snapshot()
    with pytest.raises(InvalidRequest) as refused:
        agent.invoke(name, **document)
    assert refused.value.kwargs["method"] == name
    assert {error["path"] for error in refused.value.kwargs["errors"]} == paths
    assert agent.tracker.snapshot() is before
    assert agent.store.calls["commit"] == before.revision


@pytest.mark.parametrize("name", OF_SCHEDULERS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_an_invalid_document_for_a_scheduler_is_refused_with_every_offending_path(name: str, data):
    method = SCHEDULER_API.methods[name]
    document, paths = data.draw(invalid_arguments(method))
    with pytest.raises(InvalidRequest) as refused:
        validate(method, document)
    assert {error["path"] for error in refused.value.kwargs["errors"]} == paths


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_valid_document_is_accepted(name: str, agent: Agent, data):
    check_reply(agent, name, data.draw(valid_arguments(METHODS[name])))


def check_reply(agent: Agent, name: str, document: dict[str, Any]) -> None:
    """A call succeeds or has an error of its method; an error about content names the content."""
    try:
        agent.invoke(name, **document)
    except InvalidFlavor as error:
        assert "instance" in document
        assert type(error).__name__ in METHODS[name].all_errors
        assert error.kwargs["properties"] and error.kwargs["rule"]
    except InvalidPciRequest as error:
        assert "instance" in document
        assert type(error).__name__ in METHODS[name].all_errors
        assert error.kwargs["where"] and error.kwargs["rule"]
    except InvalidRequest as error:  # arguments that are not for this kind of claim
        assert name == "test_claim"
        arguments = {f"$.{each}" for each in METHODS[name].arguments.__struct_fields__}
        paths = {each["path"] for each in error.kwargs["errors"]}
        assert paths and paths <= {"$.migration.migration_type", *arguments}
    except RtAgentError as error:
        assert error.expected
        assert type(error).__name__ in METHODS[name].all_errors
    agent.tracker.snapshot().check()
