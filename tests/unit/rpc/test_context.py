"""The context on the wire."""

import pytest
from oslo_context.context import RequestContext, get_current

from rtagent.rpc.context import MAX_PROOF, ContextSerializer, actor, request_id


def transmitted(context: RequestContext) -> RequestContext:
    serializer = ContextSerializer()
    return serializer.deserialize_context(dict(serializer.serialize_context(context)))


def test_a_context_is_sent_without_its_token():
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
    assert transmitted(sent).to_dict() == {**sent.to_dict(), "auth_token": None}


def test_of_an_empty_context_only_the_request_id_is_sent():
    sent = RequestContext(overwrite=False)
    assert transmitted(sent).to_dict() == sent.to_dict()
    assert list(ContextSerializer().serialize_context(sent)) == ["request_id"]


def test_a_received_context_becomes_current():
    sent = RequestContext(user_id="alice", overwrite=False)
    current = transmitted(sent)
    assert get_current() is current


@pytest.mark.parametrize(
    "strange", [{"a": [1]}, 7, 1.5, "x" * 9000, "a\nb\x1b", [{}, "a\nb"], True]
)
def test_received_fields_are_short_printable_text(strange: object):
    names = RequestContext(overwrite=False).to_dict()
    arrived = ContextSerializer().deserialize_context(dict.fromkeys(names, strange)).to_dict()
    for value in arrived.values():
        texts = value if isinstance(value, list) else [value]
        for text in texts:
            assert (
                text is None or isinstance(text, bool) or (text.isprintable() and len(text) < 2000)
            )


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
def test_received_ids_are_valid_in_http_headers(strange: object):
    arrived = ContextSerializer().deserialize_context(
        {"request_id": strange, "global_request_id": strange}
    )
    for id_ in (arrived.request_id, arrived.global_id):
        assert id_ and id_.isascii() and id_.isprintable() and len(id_) <= 255


def test_a_received_proof_can_be_encoded():
    fields = {"signature": "\ud800", "reply_nonce": "1\ud800" * 2000}
    proof = ContextSerializer().deserialize_context(fields).proof
    assert (proof.signature, proof.nonce) == ("?", ("1?" * 2000)[: MAX_PROOF + 1])
