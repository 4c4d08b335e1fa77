"""Documents of the read API over RPC: roles, errors, size."""

from http import HTTPStatus

import pytest

from rtagent.api.reply import Reply
from rtagent.rpc.errors import DocumentTooLarge
from rtagent.rpc.read_endpoint import MAX_DOCUMENT
from tests.support.rpc import Agent


def test_an_error_of_the_read_api_is_a_document():
    agent = Agent()
    agent.document = Reply(status=HTTPStatus.NOT_FOUND, body=b'{"error": "ClaimNotFound"}')
    reply = agent.invoke("get_document", path="/claims/x")
    assert reply == {"status": 404, "body": '{"error": "ClaimNotFound"}'}


def test_document_over_the_limit_is_refused_with_sizes_and_remedy():
    agent = Agent()
    agent.document = Reply(body=b"x" * MAX_DOCUMENT)
    assert len(agent.invoke("get_document", path="/claims")["body"]) == MAX_DOCUMENT
    agent.document = Reply(body=b"x" * (MAX_DOCUMENT + 1))
    with pytest.raises(DocumentTooLarge, match="use a filter") as refused:
        agent.invoke("get_document", path="/claims")
    assert refused.value.kwargs["size"] == MAX_DOCUMENT + 1
