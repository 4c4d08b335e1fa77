"""Signed replies: a server signs its reply to one call, and the caller verifies it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import oslo_messaging
from msgspec import Struct
from oslo_log import log

from rtagent.errors import RtAgentError
from rtagent.model.base import Value
from rtagent.model.converter import Converter
from rtagent.rpc.context import proof_of
from rtagent.rpc.errors import ReplyNotVerified
from rtagent.rpc.topics import AGENT, SCHEDULER
from rtagent.rpc.trust.credentials import Credentials
from rtagent.rpc.trust.signature import ReplyText, arguments_digest, is_genuine

LOG = log.getLogger(__name__)

#: The roles of keys that may sign replies, by topic.
_SIGNERS = {AGENT: "agent", SCHEDULER: "scheduler"}


class _Body(Struct, frozen=True):
    """What is signed. :ivar error: the name of the error's class; "": there is none."""

    reply: Any = None
    error: str = ""
    module: str = ""
    message: str = ""
    kwargs: dict[str, Any] = {}

    def text(self) -> str:
        """Return its JSON."""
        # Errors quote what callers have sent, also text that is not valid Unicode.
        return json.dumps(msgspec.structs.asdict(self), default=str)


class _Signed(Struct, frozen=True, forbid_unknown_fields=True):
    """A signed reply. :ivar body: the JSON of a `_Body`. :ivar key: the name of the key."""

    key: str
    body: str
    signature: str


class RemoteFailure(Exception):
    """The error of a signed reply. :ivar module: of its class. :ivar kwargs: of the error."""

    def __init__(self, name: str, module: str, message: str, kwargs: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.name, self.module, self.message, self.kwargs = name, module, message, kwargs


_decoder = msgspec.json.Decoder(_Body)
_signed = Converter(_Signed)


class Expected(Value, frozen=True, kw_only=True):
    """What the signature of a reply must cover.

    :ivar host: of the server; None: any server of the topic.
    """

    topic: str
    host: str | None
    method: str
    digest: str
    nonce: str


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
        body = _served(serve).text()
        text = ReplyText(
            topic=self._topic, method=method, digest=digest, nonce=nonce, key=key.name, body=body
        )
        signature = base64.b64encode(key.sign(text.encoded())).decode()
        return msgspec.to_builtins(_Signed(key=key.name, body=body, signature=signature))


def _served(serve: Callable[[], Any]) -> _Body:
    try:
        return _Body(reply=serve())
    except oslo_messaging.ExpectedException as expected:
        error = expected.exc_info[1]
    except Exception as unexpected:
        LOG.exception("a call failed")
        error = unexpected
    kwargs = error.kwargs if isinstance(error, RtAgentError) else {}
    return _Body(
        error=type(error).__name__,
        module=type(error).__module__,
        message=str(error),
        kwargs=kwargs,
    )


def verified(credentials: Credentials, expected: Expected, reply: Any) -> Any:
    """Return the reply in a signed one.

    :raises ReplyNotVerified: it is not signed, or not by this server for this call.
    :raises RemoteFailure: the server's error.
    """
    try:
        signed = _signed.convert(reply)
    except msgspec.ValidationError:
        reason = (
            "it is not signed: the server has no [rpc] signing_key or is of an earlier release, or"
            " another user of the broker has answered"
        )
        raise not_verified(expected, reason) from None
    if why := _why_not(credentials, expected, signed):
        raise not_verified(expected, why)
    body = _decoder.decode(signed.body)
    if body.error:
        raise RemoteFailure(body.error, body.module, body.message, body.kwargs)
    return body.reply


def not_verified(expected: Expected, reason: str) -> ReplyNotVerified:
    """Return the error about a reply."""
    where = expected.topic if expected.host is None else f"{expected.topic}.{expected.host}"
    return ReplyNotVerified(where=where, method=expected.method, reason=reason)


def _why_not(credentials: Credentials, expected: Expected, signed: _Signed) -> str:
    """Return why a signed reply is not that of the server to this call, or ""."""
    found = credentials.ring.get(signed.key)
    if found is None:
        return "[rpc] keys_file does not have the key that it names: add the keys of all servers"
    entry, public = found
    text = ReplyText(
        topic=expected.topic,
        method=expected.method,
        digest=expected.digest,
        nonce=expected.nonce,
        key=signed.key,
        body=signed.body,
    )
    if not is_genuine(public, text, signed.signature):
        return f"the signature is not that of the key {signed.key} for this call"
    role = _SIGNERS[expected.topic]
    if role not in entry.roles:
        return f"the key {signed.key} does not have the role {role}"
    if expected.topic == AGENT and entry.host != expected.host:
        return f"the key {signed.key} is of the host {entry.host}"
    return entry.why_unusable(datetime.now(UTC))
