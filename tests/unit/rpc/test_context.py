"""The context on the wire."""

import pytest
from oslo_context.context import RequestContext, get_current

from rtagent.rpc.context import ContextSerializer, actor, request_id


def crossed(context: RequestContext) -> RequestContext:
    serializer = ContextSerializer()
    return serializer.deserialize_context(dict(serializer.serialize_context(context)))


def test_a_context_arrives_as_it_was_but_for_its_token():
    sent = RequestContext(
        auth_token="secret",
        user_id="alice",
        project_id="p",
        domain_id="d",
        user_domain_id="ud",
        project_domain_id="pd",
        is_admin=True,
        read_only=True,
        show_deleted=True,
        request_id="req-1",
        global_request_id="req-2",
        resource_uuid="r",
        roles=["admin"],
        is_admin_project=False,
        system_scope="all",
        overwrite=False,
    )
    assert crossed(sent).to_dict() == {**sent.to_dict(), "auth_token": None}


def test_an_empty_context_arrives_with_its_request_id():
    sent = RequestContext(overwrite=False)
    assert crossed(sent).to_dict() == sent.to_dict()
    assert list(ContextSerializer().serialize_context(sent)) == ["request_id"]


def test_the_context_that_arrived_is_the_threads():
    sent = RequestContext(user_id="alice", overwrite=False)
    current = crossed(sent)
    assert get_current() is current


def test_actor_and_request_id():
    context = RequestContext(
        user_id="alice", request_id="req-1", global_request_id="req-2", overwrite=False
    )
    assert (actor(context), request_id(context)) == ("alice", "req-2")
    context.global_request_id = None
    assert request_id(context) == "req-1"
    assert actor(RequestContext(overwrite=False)) == ""


@pytest.mark.parametrize(
    "strange", [{"a": 1}, 7, "x" * 1000, "a\0\ud800\u65e5b", ["x"], True, "", "\u65e5"]
)
def test_ids_are_such_as_can_be_sent_on(strange: object):
    arrived = ContextSerializer().deserialize_context(
        {"request_id": strange, "global_request_id": strange}
    )
    for id_ in (arrived.request_id, arrived.global_id):
        assert id_ and id_.isascii() and id_.isprintable() and len(id_) <= 255
