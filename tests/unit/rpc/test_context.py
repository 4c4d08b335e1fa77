"""The context on the wire."""

import pytest
from oslo_context.context import RequestContext

from rtagent.rpc.context import MAX_PROOF, ContextSerializer


def transmitted(context: RequestContext) -> RequestContext:
    serializer = ContextSerializer()
    return serializer.deserialize_context(dict(serializer.serialize_context(context)))


def test_a_context_is_sent_without_its_token():
    owner = {"user_id": "alice", "project_id": "p", "domain_id": "d", "roles": ["admin"]}
    domains = {"user_domain_id": "ud", "project_domain_id": "pd", "system_scope": "all"}
    ids = {"request_id": "req-1", "global_request_id": "req-2", "resource_uuid": "r"}
    flags = dict.fromkeys(("is_admin", "read_only", "show_deleted"), True)
    flags |= dict.fromkeys(("is_admin_project", "overwrite"), False)
    sent = RequestContext(auth_token="secret", **owner, **domains, **ids, **flags)
    assert transmitted(sent).to_dict() == {**sent.to_dict(), "auth_token": None}


@pytest.mark.parametrize(
    "strange",
    [
        *({"a": [1]}, 7, 1.5, True, ["x"], [{}, "a\nb"], "", "x" * 9000),
        *("a\nb\x1b", "a\0\ud800\u65e5b", "\u65e5"),
    ],
)
def test_received_fields_are_short_printable_text_and_ids_valid_in_http_headers(strange: object):
    names = RequestContext(overwrite=False).to_dict()
    arrived = ContextSerializer().deserialize_context(dict.fromkeys(names, strange))
    for value in arrived.to_dict().values():
        for text in value if isinstance(value, list) else [value]:
            assert text is None or isinstance(text, bool) or text.isprintable()
            assert len(str(text)) < 2000
    for id_ in (arrived.request_id, arrived.global_id):
        assert id_ and id_.isascii() and id_.isprintable() and len(id_) <= 255


def test_a_received_proof_can_be_encoded():
    fields = {"signature": "\ud800", "reply_nonce": "1\ud800" * 2000}
    proof = ContextSerializer().deserialize_context(fields).proof
    assert (proof.signature, proof.nonce) == ("?", ("1?" * 2000)[: MAX_PROOF + 1])
