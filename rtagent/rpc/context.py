"""The context of a call: its user and its request id."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.model.base import Value

#: The length of the columns that store a context's ids, in characters.
MAX_LENGTH = 255
#: The number of roles that are kept.
MAX_ROLES = 100

#: The fields of a call's proof, see `Proof`.
SIGNATURE, NONCE = "signature", "reply_nonce"
#: The length of these fields, in characters: the name of a server has 255 at most.
MAX_PROOF = 2048
#: The field in which a server adds the name of the queue that gets the reply, see `Incoming`.
REPLY_QUEUE = "reply_queue"

#: Fields that are never sent: the token, which the agent does not need, and values that other
#: fields contain already.
_NOT_SENT = frozenset({"auth_token", "project", "user_identity"})
_EMPTY = RequestContext(overwrite=False).to_dict()
#: The agent sends these on, as HTTP headers, to the services that it calls.
_IDS = frozenset({"request_id", "global_request_id"})


class Proof(Value, frozen=True, kw_only=True):
    """What a call has besides its context.

    :ivar signature: of the call; "": none. :ivar nonce: that a signed reply has; "": the caller
        wants no signed reply.
    """

    signature: str = ""
    nonce: str = ""


class CallContext(RequestContext):
    """The context of a call that was received. :ivar proof: see `Proof`.
    :ivar reply_queue: the name of the queue that gets the reply; "": none, as for a cast.
    """

    proof = Proof()
    reply_queue = ""


class OutgoingContext(NamedTuple):
    """The context of a call that is sent, with its proof."""

    context: RequestContext
    proof: Proof


class ContextSerializer(oslo_messaging.NoOpSerializer):
    """oslo.context's RequestContext on the wire: the fields that differ from an empty context.

    (Each field is a key of the message, and is copied several times on its way.)
    """

    def serialize_context(self, context: RequestContext | OutgoingContext) -> Mapping[str, Any]:
        proof = Proof()
        if isinstance(context, OutgoingContext):
            context, proof = context
        fields = {
            name: value
            for name, value in context.to_dict().items()
            if name not in _NOT_SENT and value != _EMPTY.get(name)
        }
        texts = {SIGNATURE: proof.signature, NONCE: proof.nonce}
        return {**fields, **{name: text for name, text in texts.items() if text}}

    def deserialize_context(self, context: dict[str, Any]) -> CallContext:
        """Make the context the current one of this thread, so that log lines have its ids.

        Its values are short, printable text; a caller may have sent anything.
        """
        fields = {name: _plain(value) for name, value in context.items() if name not in _NOT_SENT}
        ids = {name: _header(context[name]) for name in _IDS & context.keys()}
        received: CallContext = CallContext.from_dict({**fields, **ids})
        received.proof = proof_of(context)
        received.reply_queue = _storable(context.get(REPLY_QUEUE))
        return received


def proof_of(context: Mapping[str, Any]) -> Proof:
    """Return the proof in the fields of a received context."""
    return Proof(signature=_text(context.get(SIGNATURE)), nonce=_text(context.get(NONCE)))


def actor(context: RequestContext) -> str:
    """The id of the user in whose name the call is made, or ""."""
    return _storable(context.user_id)


def request_id(context: RequestContext) -> str:
    """The global request id, which all services share; without one, the call's own id."""
    return _storable(context.global_id)


def reply_queue(context: RequestContext) -> str:
    """The name of the queue that gets the reply, or ""."""
    return context.reply_queue if isinstance(context, CallContext) else ""


def _text(value: object) -> str:
    """Text of a proof, which can be encoded. Of one that is too long, more is kept than is
    allowed.
    """
    return str(value or "")[: MAX_PROOF + 1].encode(errors="replace").decode()


def _header(value: object) -> str | None:
    """An id that is valid in an HTTP header; None: a new id is made for the call."""
    return _storable(value).encode("ascii", "ignore").decode() or None


def _plain(value: object) -> object:
    """A flag, text, or a list of texts (the roles); None in place of an object."""
    match value:
        case None | bool():
            return value
        case list():
            return [_storable(item) for item in value[:MAX_ROLES] if isinstance(item, str)]
        case dict():
            return None
    return _storable(value)


def _storable(value: object) -> str:
    """Text that is safe in a log and in a column: a context has no schema."""
    text = str(value or "")
    if not text.isprintable():
        text = "".join(filter(str.isprintable, text))
    return text[:MAX_LENGTH]
