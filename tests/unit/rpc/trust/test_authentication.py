"""Which calls are accepted as those of a key, and which are refused."""

import base64
import hashlib
import json
import math
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from oslo_context.context import RequestContext

from rtagent.conf.rpc import Rpc
from rtagent.ports import NullReporter
from rtagent.rpc.context import CallContext, Proof
from rtagent.rpc.errors import SignatureInvalid
from rtagent.rpc.methods import TABLES
from rtagent.rpc.trust.access import Caller
from rtagent.rpc.trust.authentication import Authentication
from rtagent.rpc.trust.credentials import PrivateKey
from rtagent.rpc.trust.token import REPLY, ReplyClaims
from tests.support.hosts import ManualClock
from tests.support.trackers import Reports
from tests.support.trust import DAY, KeyFiles, signed_context

METHODS = TABLES["rtagent"].methods.values()
METHOD = "release_claim"
DOCUMENT = {"operation_id": "0b5c6cd7-a1a5-4f0e-9c2a-111111111111", "claim_uuid": "x", "n": [1]}


class Server:
    """The authentication of host-1. :ivar key: of a caller that it knows."""

    def __init__(self, directory: Path) -> None:
        self.files = KeyFiles(directory)
        self.key = self.files.add("nova", "conductor")
        self.clock = ManualClock(start=datetime.now(UTC))
        self.reporter = Reports()
        self.options = self.files.settings()
        self.start()

    def start(self, **options: Any) -> None:
        self.options = self.files.settings(**options)
        self.authentication = Authentication(
            "rtagent", "host-1", self.options, self.clock, self.reporter, METHODS
        )

    def context(self, key: PrivateKey | None = None, **changed: Any) -> CallContext:
        return signed_context(key or self.key, self.clock.now(), DOCUMENT, **changed)

    def caller(self, context: RequestContext, **document: Any) -> Caller:
        return self.authentication(context, METHOD, {**DOCUMENT, **document})

    def refusal(self, context: RequestContext, **document: Any) -> SignatureInvalid:
        with pytest.raises(SignatureInvalid) as refused:
            self.caller(context, **document)
        return refused.value


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_signed_call_is_of_its_key_whatever_the_context_says(server: Server):
    expected = Caller(name="nova", roles=frozenset({"conductor"}), proved=True)
    assert server.caller(server.context()) == expected


@pytest.mark.parametrize(
    "field, value", [("method", "get_claim"), ("digest", "0" * 64), ("nonce", "another")]
)
def test_each_signed_field_counts(server: Server, field: str, value: str):
    refused = server.refusal(server.context(**{field: value}))
    reason = f"it is not that of the key nova for this call: its {field} differs"
    assert refused.kwargs["reason"] == reason
    assert refused.kwargs["key"] == "nova"


@pytest.mark.parametrize(
    "change",
    [
        {"operation_id": "0b5c6cd7-a1a5-4f0e-9c2a-333333333333"},
        {"claim_uuid": "y"},
        {"n": [1.0, 2]},
        {"node": "added"},
    ],
    ids=["operation id", "value", "list", "added"],
)
def test_changed_arguments_are_refused(server: Server, change: dict[str, Any]):
    assert "not that of the key nova" in server.refusal(server.context(), **change).message


def part(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def changed(token: str, number: int, change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    """Return a token with another header (0) or other claims (1)."""
    parts = token.split(".")
    document = json.loads(base64.urlsafe_b64decode(parts[number] + "=="))
    parts[number] = part(json.dumps(change(document)).encode())
    return ".".join(parts)


@pytest.mark.parametrize(
    "forge",
    [
        lambda token: changed(token, 0, lambda header: {**header, "kid": "other"}),
        lambda token: changed(token, 0, lambda header: {**header, "typ": REPLY}),
        lambda token: changed(token, 0, lambda header: {**header, "alg": "none"}),
        lambda token: changed(token, 0, lambda header: {**header, "alg": "HS256"}),
        lambda token: changed(token, 1, lambda claims: {**claims, "iat": claims["iat"] + 1}),
        lambda token: changed(token, 1, lambda claims: {**claims, "jti": "another"}),
        lambda token: changed(token, 1, lambda claims: {**claims, "sub": "nova"}),
        lambda token: token[:-8] + "AAAAAAAA",
        lambda token: token.rpartition(".")[0] + ".",
    ],
    ids=["key", "type", "none", "hmac", "time", "id", "claim", "signature", "unsigned"],
)
def test_each_part_of_a_token_counts(server: Server, forge: Callable[[str], str]):
    server.files.add("other", "operator")
    server.start()
    context = server.context()
    context.proof = Proof(signature=forge(context.proof.signature))
    assert "it is not that of the key" in server.refusal(context).message


def test_token_of_a_reply_is_none_of_a_call(server: Server):
    said = ReplyClaims(aud="rtagent.host-1", method=METHOD, digest="", nonce="", body="")
    context = server.context()
    context.proof = Proof(signature=server.key.token(said))
    assert "it is not that of the key nova" in server.refusal(context).message


@pytest.mark.parametrize(
    "signature",
    [
        *("x", "[]", "..", f"{part(b'x')}.{part(b'{}')}.", f"{part(b'[]')}.{part(b'{}')}."),
        *(f"{part(b'{}')}.{part(b'{}')}.", f"{part(b'[' * 1000)}.{part(b'{}')}.", "x" * 5000),
    ],
    ids=["text", "json", "empty", "header", "list", "no key", "deep", "long"],
)
def test_malformed_signature_is_refused(server: Server, signature: str):
    context = server.context()
    context.proof = Proof(signature=signature)
    assert server.refusal(context).kwargs["reason"] == "it, or an argument, is malformed"


def deep(levels: int) -> list[Any]:
    document: list[Any] = []
    for _ in range(levels):
        document = [document]
    return document


def test_arguments_with_too_many_levels_are_refused(server: Server):
    refused = server.refusal(server.context(), n=deep(10_000))
    assert refused.kwargs["reason"] == "it, or an argument, is malformed"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf], ids=str)
def test_number_that_is_none_does_not_count_as_null(server: Server, number: float):
    null, changed = {"limit": [{"a": None}]}, {"limit": [{"a": number}]}
    context = signed_context(server.key, server.clock.now(), {**DOCUMENT, **null})
    assert server.caller(context, **null).proved
    refused = server.refusal(context, **changed)
    assert refused.kwargs["reason"] == "it, or an argument, is malformed"


def by_pyjwt(key: dict[str, str], arguments: dict[str, Any], **more: object) -> str:
    """A token as the documentation describes it, without any code of this project."""
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    call = {"aud": "rtagent.host-1", "method": METHOD, "digest": digest, "nonce": ""}
    claims = {**call, "iat": int(time.time()), "jti": str(uuid.uuid4())}
    headers = {"kid": key["kid"], "typ": "rtagent-call+jwt"}
    return jwt.encode({**claims, **more}, jwt.PyJWK(key).key, "EdDSA", headers)


def test_another_program_can_sign_as_the_documentation_says(server: Server):
    key = json.loads(server.files.file("nova").read_text())
    context = server.context()
    arguments = {**DOCUMENT, "b": "ü\u2028/\x7f", "a": {"z": 1.5, "c": 2}}
    context.proof = Proof(signature=by_pyjwt(key, arguments))
    assert server.authentication(context, METHOD, arguments).name == "nova"
    context.proof = Proof(signature=by_pyjwt(key, arguments, exp=0))
    with pytest.raises(
        SignatureInvalid, match="for this call: Object contains unknown field `exp`"
    ):
        server.authentication(context, METHOD, arguments)


def test_call_for_another_server_is_refused(server: Server):
    for aud in ("rtagent.host-2", "scheduler.host-1", "scheduler"):
        refused = server.refusal(server.context(aud=aud))
        assert refused.kwargs["reason"] == f"it is for {aud}, and this is rtagent.host-1"


#: By topic: the methods that a server serves although the signature names no server.
FOR_ANY = {
    "rtagent": {"ping", "report_host_state", "update_forced_down"},
    "scheduler": {
        *("ping", "select_destinations", "forget_claim", "explain", "count_room", "advise"),
        *("get_aggregates", "get_service", "update_aggregates", "drop_assumed_claim"),
        *("update_host_state", "update_instance_info", "delete_instance_info"),
        "sync_instance_info",
    },
}


@pytest.mark.parametrize("topic", list(FOR_ANY))
def test_signature_for_any_server_is_enough_for_casts_reads_and_selections_of_schedulers_only(
    server: Server, topic: str
):
    methods = TABLES[topic].methods
    served = Authentication(
        topic, "host-1", server.options, server.clock, server.reporter, methods.values()
    )

    def call(method: str, aud: str) -> Caller:
        return served(server.context(aud=aud, method=method), method, DOCUMENT)

    for method in methods:
        assert call(method, f"{topic}.host-1").proved
        if method in FOR_ANY[topic]:
            assert call(method, topic).proved
            continue
        with pytest.raises(SignatureInvalid) as refused:
            call(method, topic)
        reason = f"it is for any server, which is not enough for {method}: sign it for host-1"
        assert refused.value.kwargs["reason"] == reason


@pytest.mark.parametrize("seconds, side", [(61, "behind"), (-61, "ahead of")])
def test_signature_outside_the_window_is_refused_and_the_skew_is_named(
    server: Server, seconds: int, side: str
):
    inside, outside = server.context(), server.context()
    last = math.copysign(2, seconds)
    server.clock.advance(seconds - last)
    assert server.caller(inside).proved
    server.clock.advance(last)
    refused = server.refusal(outside)
    assert refused.kwargs["skew"] == pytest.approx(-seconds, abs=0.01)
    assert f"{abs(seconds)}.00" in refused.message or "60.99" in refused.message
    assert f"s {side} the clock of host-1, and [rpc] signature_window is 60 s" in refused.message


def test_unknown_expired_and_future_keys_are_refused(server: Server):
    unknown = server.refusal(server.context(PrivateKey.generate("eve")))
    assert "host-1 does not know the key eve: add it to [rpc] keys_file" in unknown.message
    expired = server.files.add("old", "operator", valid=(-2 * DAY, -timedelta(seconds=1)))
    future = server.files.add("new", "operator", valid=(timedelta(hours=1), DAY))
    server.start()
    assert "the key old expired at" in server.refusal(server.context(expired)).message
    assert "the key new is valid only from" in server.refusal(server.context(future)).message


def test_wrong_signatures_and_replays_lock_nobody_out(server: Server):
    """Not even with the reply queue of the true caller, which its messages name."""
    served = server.context()
    assert server.caller(served).proved
    for _ in range(100):
        assert "has served this call" in server.refusal(served).message
        server.refusal(server.context(PrivateKey.generate("nova")))
    assert server.caller(server.context()).proved


def test_without_a_keys_file_no_signature_is_accepted(server: Server):
    authentication = Authentication(
        "rtagent", "host-1", Rpc(), server.clock, NullReporter(), METHODS
    )
    with pytest.raises(SignatureInvalid, match="does not know the key nova"):
        authentication(server.context(), METHOD, DOCUMENT)


def test_unsigned_call_has_the_roles_of_its_context_until_signatures_are_required(server: Server):
    unsigned = CallContext(user_id="alice", roles=["reader"], overwrite=False)
    assert server.caller(unsigned) == Caller(name="alice", roles=frozenset({"reader"}))
    server.start(unsigned_roles=["reader"])
    assert server.caller(CallContext(overwrite=False)).roles == {"reader"}
    server.start(require_signature=True)
    refused = server.refusal(unsigned)
    assert "it has none, and host-1 requires one: set [rpc] signing_key" in refused.message
    assert server.caller(server.context()).proved
    assert server.authentication(unsigned, "ping", {}).name == "alice"


def test_reload_applies_new_and_revoked_keys_and_keeps_all_if_the_file_is_damaged(server: Server):
    fresh = server.files.add("fresh", "reader")
    server.authentication.reload(server.options)
    assert server.caller(server.context(fresh)).name == "fresh"
    good = server.files.path.read_text()
    server.files.path.write_text("keys: [")
    server.authentication.reload(server.options)
    assert server.caller(server.context(fresh)).name == "fresh"
    level, sentence = server.reporter.logged[-1]
    assert level == "error"
    assert sentence.startswith("the keys that are known stay in force: [rpc] keys_file = ")
    server.files.path.write_text(good)
    server.files.revoke("fresh")
    server.authentication.reload(server.options)
    assert "does not know the key fresh" in server.refusal(server.context(fresh)).message
