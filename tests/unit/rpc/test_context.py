"""The context on the wire."""

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
