"""What a caller accepts as the reply of a server, and what the server signs."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import oslo_messaging
import pytest
from msgspec.structs import replace
from oslo_config import cfg

from rtagent.errors import ClaimNotFound
from rtagent.rpc import AGENT
from rtagent.rpc.errors import ReplyNotVerified
from rtagent.rpc.transport import get_transport
from rtagent.rpc.trust.credentials import Credentials, PrivateKey, read_private_key
from rtagent.rpc.trust.signed_reply import Expected, RemoteFailure, SignedReplies, verified
from rtagent.rpc.trust.token import CallClaims, ReplyClaims, arguments_digest
from tests.support.trust import KeyFiles

ARGUMENTS = {"claim_uuid": "x"}
EXPECTED = Expected(
    topic=AGENT, host="cn1", method="get_claim", digest=arguments_digest(ARGUMENTS), nonce="1"
)
BODY = '{"reply": 1}'
SAID = EXPECTED.claims(BODY.encode())
CALL = CallClaims(aud=AGENT, method="get_claim", digest=EXPECTED.digest, nonce="1", iat=0, jti="")


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    files = KeyFiles(tmp_path)
    files.add("cn1", "agent", host="cn1")
    files.add("cn2", "agent", host="cn2")
    files.add("nova", "conductor")
    return files


def credentials(files: KeyFiles, name: str) -> Credentials:
    conf = cfg.ConfigOpts()
    conf([])
    get_transport(conf, "fake://")
    for option, value in files.options(name).items():
        conf.set_override(option, value, group="rpc")
    return Credentials(conf)


def signed(files: KeyFiles, serve: Callable[[], Any]) -> Any:
    """Return what the server answers."""
    message = {"method": "get_claim", "args": ARGUMENTS}
    incoming = SimpleNamespace(ctxt={"reply_nonce": "1"}, message=message)
    return SignedReplies(credentials(files, "cn1"), AGENT).serve(incoming, serve)


def test_error_may_quote_what_is_neither_unicode_nor_json(files: KeyFiles):
    def fail() -> None:
        try:
            raise ClaimNotFound(claim_uuid="a\ud800", path=Path("x"))
        except ClaimNotFound:
            raise oslo_messaging.ExpectedException() from None

    with pytest.raises(RemoteFailure, match=r"a\?") as failure:
        verified(credentials(files, "nova"), EXPECTED, signed(files, fail))
    assert failure.value.kwargs == {"claim_uuid": "a?", "path": "x"}


@pytest.mark.parametrize(
    "reply", [{"a": [1, None, "ü"]}, None, "text"], ids=["object", "null", "text"]
)
def test_reply_is_that_of_the_server(files: KeyFiles, reply: object):
    assert verified(credentials(files, "nova"), EXPECTED, signed(files, lambda: reply)) == reply


Forge = Callable[[KeyFiles], Any]


def reply(key: PrivateKey, claims: CallClaims | ReplyClaims = SAID, body: str = BODY) -> Any:
    return {"token": key.token(claims), "body": body}


def by(name: str, claims: CallClaims | ReplyClaims = SAID, body: str = BODY) -> Forge:
    """Makes a reply by a key that the caller knows."""
    return lambda files: reply(read_private_key(str(files.file(name))), claims, body)


def body(text: str) -> Forge:
    """Makes a reply by the server itself."""
    return by("cn1", EXPECTED.claims(text.encode()), text)


@pytest.mark.parametrize(
    "forge, reason",
    [
        (lambda files: {"uuid": "x"}, "it is not signed"),
        (lambda files: {"token": "\ud800..", "body": BODY}, "it is not signed"),
        (lambda files: {**by("cn1")(files), "body": "\ud800"}, "it is not signed"),
        (lambda files: reply(PrivateKey.generate("cn1")), "not that of the key cn1 for this call"),
        (lambda files: reply(PrivateKey.generate("eve")), "does not have the key that it names"),
        (by("cn1", body='{"reply": 2}'), "not that of the key cn1 for this call"),
        (body('{"reply": ' + "[" * 10_000), "its body is malformed"),
        (body('{"reply": NaN}'), "its body is malformed: JSON is malformed: invalid character"),
        (by("cn1", CALL), "not that of the key cn1 for this call"),
        (by("cn1", replace(SAID, nonce="2")), "not that of the key cn1 for this call"),
        (by("cn1", replace(SAID, digest="")), "not that of the key cn1 for this call"),
        (by("cn1", replace(SAID, method="ping")), "not that of the key cn1 for this call"),
        (by("cn1", replace(SAID, aud="scheduler")), "not that of the key cn1 for this call"),
        (by("cn2"), "the key cn2 is of the host cn2"),
        (by("nova"), "the key nova does not have the role agent"),
    ],
    ids=[
        *("plain", "token", "text", "another key", "unknown key", "body", "deep", "number", "call"),
        *("nonce", "arguments", "method", "topic", "host", "role"),
    ],
)
def test_other_replies_are_refused(files: KeyFiles, forge: Forge, reason: str):
    with pytest.raises(ReplyNotVerified) as refused:
        verified(credentials(files, "nova"), EXPECTED, forge(files))
    assert reason in refused.value.message
