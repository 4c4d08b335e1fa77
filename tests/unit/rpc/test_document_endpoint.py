"""Documents of the read API over RPC: roles, errors, size."""

from http import HTTPStatus

import pytest
from oslo_context.context import RequestContext

from rtagent.api.reply import Reply
from rtagent.rpc.errors import DocumentTooLarge, NotAuthorized
from rtagent.rpc.read_endpoint import MAX_DOCUMENT
from tests.support.rpc import Agent


@pytest.mark.parametrize("role", ["reader", "operator"])
def test_callers_with_the_role_get_document_and_status(role: str):
    agent = Agent()
    agent.document = Reply(status=HTTPStatus.NOT_FOUND, body=b'{"error": "ClaimNotFound"}')
    context = RequestContext(roles=["other", role], overwrite=False)
    reply = agent.invoke_as(context, "get_document", path="/claims/x")
    assert reply == {"status": 404, "body": '{"error": "ClaimNotFound"}'}


@pytest.mark.parametrize("roles", [["agent"], ["agent", "Reader"]])
def test_callers_without_the_role_are_refused_and_it_is_named(roles: list[str]):
    context = RequestContext(roles=roles, overwrite=False)
    with pytest.raises(NotAuthorized, match="get_document needs the role reader"):
        Agent().invoke_as(context, "get_document", path="/claims")


def test_document_over_the_limit_is_refused_with_sizes_and_remedy():
    agent = Agent()
    agent.document = Reply(body=b"x" * MAX_DOCUMENT)
    assert len(agent.invoke("get_document", path="/claims")["body"]) == MAX_DOCUMENT
    agent.document = Reply(body=b"x" * (MAX_DOCUMENT + 1))
    with pytest.raises(DocumentTooLarge, match="use a filter") as refused:
        agent.invoke("get_document", path="/claims")
    assert refused.value.kwargs["size"] == MAX_DOCUMENT + 1
