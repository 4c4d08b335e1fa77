"""The rules for a request's message: what it may be before oslo.messaging parses it.

oslo.messaging accepts more than it can process. A message that breaks a rule is dropped without an
answer. The documents of the methods have rules of their own (`rtagent.rpc.schemas`), whose
violations are answered.
"""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from rtagent.model.base import Converter
from rtagent.rpc.amqp_frames import OVERSIZED, UNDECODABLE
from rtagent.rpc.schemas import levels

#: The largest message, in bytes. The largest that a client sends for a real guest has some 20 kB.
MAX_BODY = 2**20
#: The same for schedulers: a report may describe a host with many devices.
MAX_REPORT = 2**22
#: The number of values in a message; more are refused before they are parsed. A scheduler's has as
#: many for each `MAX_BODY` of its size: a report names every claim and every pinned CPU.
MAX_VALUES = 10_000
#: The digits of a number. The time to parse a number grows with their square.
MAX_DIGITS = 500
#: The depth of a message. The deepest valid one has eight levels, and one that is a little deeper
#: gets an answer that says so.
MAX_DEPTH = 600
#: The context's fields, the characters of a field's name, and the levels of its value.
MAX_CONTEXT_FIELDS = 100
MAX_NAME = 100
MAX_CONTEXT_DEPTH = 8

_CONTEXT = "_context_"

#: The header that RabbitMQ adds to a message that it dead-letters. No client can remove it.
_DEAD_LETTER = "x-death"

#: The reasons of refusals, by the label of the counter ``rtagent_rpc_refused_total``.
REASONS = {
    "size": f"it has more than {MAX_BODY} bytes, or {MAX_REPORT} for a scheduler",
    "properties": "its properties cannot be decoded, or its content encoding is not utf-8",
    "compression": "it is compressed ([oslo_messaging_rabbit] kombu_compression of the caller "
    "must be unset)",
    "content_type": "its content type is not application/json",
    "envelope": "it is not an envelope of oslo.messaging 2.0 with a JSON object",
    "values": f"it has more than {MAX_VALUES} values, or {MAX_REPORT // MAX_BODY * MAX_VALUES}"
    f" for a scheduler, or {MAX_DEPTH} levels",
    "request": "its fields are not those of a request",
    "context": "its context is not one that can be passed on",
    "duplicate": "it was delivered before",
    "exchange": "it came by another way than the exchange of the topic, so the broker has not "
    "checked that its sender may write to the topic",
}


class RefusedMessage(Exception):
    """A message must not be processed. :ivar reason: a key of `REASONS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(REASONS[reason])
        self.reason = reason


class _Envelope(Struct, frozen=True, forbid_unknown_fields=True):
    version: Annotated[str, Meta(pattern=r"^2\.0\Z")] = field(name="oslo.version")
    message: str = field(name="oslo.message")


_Id = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[!-~]+\Z")]


class _Request(Struct, frozen=True):
    """The fields of a request that oslo.messaging interprets, except those of the context."""

    method: Annotated[str, Meta(max_length=MAX_NAME, pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]
    args: dict[str, Any] = {}
    version: Annotated[str, Meta(pattern=r"^\d{1,4}\.\d{1,4}(\.\d{1,4})?\Z")] = "1.0"
    namespace: Annotated[str, Meta(max_length=MAX_NAME)] | None = None
    message_id: _Id | None = field(default=None, name="_msg_id")
    reply_queue: _Id | None = field(default=None, name="_reply_q")
    unique_id: _Id | None = field(default=None, name="_unique_id")
    timeout: int | float | None = field(default=None, name="_timeout")


def _short(digits: str) -> str:
    if len(digits) > MAX_DIGITS:
        raise ValueError
    return digits


# The parser that oslo.messaging uses, so that both accept the same texts.
_decoder = json.JSONDecoder(
    parse_int=lambda digits: int(_short(digits)), parse_float=lambda digits: float(_short(digits))
)
_envelope = msgspec.json.Decoder(_Envelope)
_requests = Converter(_Request)


def check(body: bytes, properties: Mapping[str, Any], max_body: int = MAX_BODY) -> str | None:
    """Check a message, and return its unique id; None: it has none.

    :param properties: of AMQP, by py-amqp's names. :param max_body: bytes.
    :raises Refused: it breaks a rule.
    """
    _check_properties(body, properties, max_body)
    fields = _fields(body, MAX_VALUES * (max_body // MAX_BODY))
    _check_context(fields)
    try:
        request = _requests.convert(fields)
    # UnicodeEncodeError is raised for a name that is not valid Unicode.
    except (msgspec.ValidationError, UnicodeEncodeError):
        raise RefusedMessage("request") from None
    if (request.message_id is None) != (request.reply_queue is None):
        raise RefusedMessage("request")
    return request.unique_id


def check_delivery(
    queue: str,
    delivery: Mapping[str, Any],
    properties: Mapping[str, Any],
    exchange: str,
    *,
    fanout: bool = False,
) -> None:
    """Check that the broker has judged the sender by the permissions for the topic.

    Every user that may send replies may write to the default exchange, and so to any queue.
    RabbitMQ also does not compare topic permissions with the header ``CC``, with the routing key of
    dead letters, nor with that of messages to another exchange that is bound to this one.

    :param queue: from which the message came. :param delivery: its exchange and routing key.
    :param exchange: to which the queue is bound. :param fanout: it sends to all its queues.
    :raises Refused: it came in another way.
    """
    direct = bool(exchange) and delivery.get("exchange") == exchange
    # With a CC header, the routing key is that of another queue.
    addressed = fanout or delivery.get("routing_key") == queue
    dead = _DEAD_LETTER in (properties.get("application_headers") or {})
    if not direct or not addressed or dead:
        raise RefusedMessage("exchange")


def _check_properties(body: bytes, properties: Mapping[str, Any], max_body: int) -> None:
    content_type = properties.get("content_type")
    if content_type == OVERSIZED or len(body) > max_body:
        raise RefusedMessage("size")
    if content_type == UNDECODABLE:
        raise RefusedMessage("properties")
    if (properties.get("application_headers") or {}).get("compression"):
        raise RefusedMessage("compression")
    if content_type != "application/json":
        raise RefusedMessage("content_type")


def _fields(body: bytes, max_values: int) -> dict[str, Any]:
    """The message in an envelope, parsed."""
    try:
        text = _envelope.decode(body).message
        # Both counts are upper bounds, and are cheap compared with parsing.
        opened = text.count("[") + text.count("{")
        if opened + text.count(",") > max_values:
            raise RefusedMessage("values")
        fields = _decoder.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise RefusedMessage("envelope") from None
    if not isinstance(fields, dict):
        raise RefusedMessage("envelope")
    if opened > MAX_DEPTH and _depth_exceeds(fields, MAX_DEPTH):
        raise RefusedMessage("values")
    return fields


def _depth_exceeds(document: object, limit: int) -> bool:
    return next(islice(levels(document), limit - 1, None), None) is not None


def _check_context(fields: Mapping[str, Any]) -> None:
    context = {
        name.removeprefix(_CONTEXT): value
        for name, value in fields.items()
        if name.startswith(_CONTEXT)
    }
    # oslo.messaging passes them as keyword arguments of a method, which has an argument `self`.
    odd = "self" in context or any(len(name) > MAX_NAME for name in context)
    # It copies them by recursion.
    if odd or len(context) > MAX_CONTEXT_FIELDS or _depth_exceeds(context, MAX_CONTEXT_DEPTH):
        raise RefusedMessage("context")
