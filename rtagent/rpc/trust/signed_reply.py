"""Signed replies: a server signs its reply to one call, and the caller verifies it."""

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import oslo_messaging
from msgspec import Struct
from oslo_log import log

from rtagent.errors import RtAgentError
from rtagent.model.base import Converter, Value
from rtagent.rpc import AGENT, SCHEDULER
from rtagent.rpc.context import proof_of
from rtagent.rpc.errors import ReplyNotVerified
from rtagent.rpc.trust.credentials import Credentials
from rtagent.rpc.trust.keys import PublicKey
from rtagent.rpc.trust.token import ReplyClaims, arguments_digest, key_name, proved

LOG = log.getLogger(__name__)

#: The roles of keys that may sign replies, by topic.
_SIGNERS = {AGENT: "agent", SCHEDULER: "scheduler"}


class _Body(Struct, frozen=True):
    """:ivar error: the name of the error's class; "": there is none. :ivar module: of this class.
    :ivar kwargs: of the error.
    """

    reply: Any = None
    error: str = ""
    module: str = ""
    message: str = ""
    kwargs: dict[str, Any] = {}


class _Signed(Struct, frozen=True, forbid_unknown_fields=True):
    """A signed reply. :ivar body: the JSON of a `_Body`, of which `token` has the SHA-256: PyJWT
    needs 0.1 ms to decode 1000 characters of a token.
    """

    token: str
    body: str


_signed, _bodies = Converter(_Signed), msgspec.json.Decoder(_Body)


class RemoteFailure(Exception):
    """The error of a signed reply. :ivar module: of its class. :ivar kwargs: of the error."""

    def __init__(self, name: str, module: str, message: str, kwargs: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.name, self.module, self.message, self.kwargs = name, module, message, kwargs


class Expected(Value, frozen=True, kw_only=True):
    """What the signature of a reply must cover.

    :ivar host: of the server; None: any server of the topic.
    """

    topic: str
    host: str | None
    method: str
    digest: str
    nonce: str

    def claims(self, body: bytes) -> ReplyClaims:
        """Return what the token of a reply to this call says."""
        return _claims(self.topic, self.method, self.digest, self.nonce, body)


class SignedReplies:
    """Signs the replies of one server to the calls that want it. Thread-safe."""

    def __init__(self, credentials: Credentials, topic: str) -> None:
        self._credentials, self._topic = credentials, topic

    def serve(self, incoming: Any, serve: Callable[[], Any]) -> Any:
        """Serve a call and return its reply, which is signed if the call wants that."""
        key, nonce = self._credentials.key, proof_of(incoming.ctxt).nonce
        if not nonce or key is None:
            return serve()
        method, arguments = incoming.message["method"], incoming.message.get("args", {})
        try:
            digest = arguments_digest(arguments)
        except ValueError:  # no caller of ours can verify the reply
            return serve()
        # Errors quote what callers have sent, also text that is not valid Unicode.
        text = json.dumps(_served(serve), default=str, ensure_ascii=False)
        body = text.encode(errors="replace")
        token = key.token(_claims(self._topic, method, digest, nonce, body))
        return {"token": token, "body": body.decode()}


def _claims(topic: str, method: str, digest: str, nonce: str, body: bytes) -> ReplyClaims:
    sha256 = hashlib.sha256(body).hexdigest()
    return ReplyClaims(aud=topic, method=method, digest=digest, nonce=nonce, body=sha256)


def _served(serve: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"reply": serve()}
    except oslo_messaging.ExpectedException as expected:
        error = expected.exc_info[1]
    except Exception as unexpected:
        LOG.exception("a call failed")
        error = unexpected
    return {
        "error": type(error).__name__,
        "module": type(error).__module__,
        "message": str(error),
        "kwargs": error.kwargs if isinstance(error, RtAgentError) else {},
    }


def verified(credentials: Credentials, expected: Expected, reply: Any) -> Any:
    """Return the reply in a signed one.

    :raises ReplyNotVerified: it is not signed, or not by this server for this call.
    :raises RemoteFailure: the server's error.
    """
    try:
        signed = _signed.convert(reply)
        name, text = key_name(signed.token), signed.body.encode()
    except (ValueError, msgspec.ValidationError):
        reason = (
            "it is not signed: the server has no [rpc] signing_key or is of an earlier release, or"
            " another user of the broker has answered"
        )
        raise not_verified(expected, reason) from None
    found = credentials.ring.get(name)
    if found is None:
        reason = "[rpc] keys_file does not have the key that it names: add the keys of all servers"
        raise not_verified(expected, reason)
    entry, public = found
    try:
        said = proved(signed.token, public, ReplyClaims)
    except ValueError:
        said = None
    if said != expected.claims(text):
        reason = f"the signature is not that of the key {name} for this call"
        raise not_verified(expected, reason)
    if why := _why_not(entry, expected):
        raise not_verified(expected, why)
    try:
        body = _bodies.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise not_verified(expected, f"its body is malformed: {error}") from error
    if body.error:
        raise RemoteFailure(body.error, body.module, body.message, body.kwargs)
    return body.reply


def not_verified(expected: Expected, reason: str) -> ReplyNotVerified:
    """Return the error about a reply."""
    where = expected.topic if expected.host is None else f"{expected.topic}.{expected.host}"
    return ReplyNotVerified(where=where, method=expected.method, reason=reason)


def _why_not(key: PublicKey, expected: Expected) -> str:
    """Return why a key may not sign this reply, or ""."""
    role = _SIGNERS[expected.topic]
    if role not in key.roles:
        return f"the key {key.name} does not have the role {role}"
    if expected.topic == AGENT and key.host != expected.host:
        return f"the key {key.name} is of the host {key.host}"
    return key.why_unusable(datetime.now(UTC))
