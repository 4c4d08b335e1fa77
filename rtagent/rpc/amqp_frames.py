"""AMQP frames: replace those that py-amqp cannot decode, and drop bodies that are too large.

py-amqp decodes the properties and the routing key of every message that arrives, and keeps its
body. An error there ends the connection with the message still in the queue, so that the same
message ends the next connection, too. And a body may be as large as the broker allows.
"""

from collections.abc import Callable
from struct import error as StructError
from struct import pack, unpack_from
from typing import Any

from amqp import AMQPError, spec
from amqp.method_framing import frame_handler
from amqp.serialization import decode_properties_basic

#: The type and the payload of a frame: a method, the header of a content, a part of its body.
METHOD, HEADER, BODY = 1, 2, 3
#: The content types that replace the properties of a message whose body is not passed on, and of
#: one whose properties cannot be decoded.
OVERSIZED, UNDECODABLE = "application/x-oversized", "application/x-undecodable"
#: The encodings that a request may have. py-amqp would decode the body with any other, and some
#: take minutes for a megabyte.
ENCODINGS = frozenset({"utf-8", "binary"})

#: (type, channel, payload)
Frame = tuple[int, int, bytes]

#: Errors of py-amqp's decoder: its own one is about a type that it does not know.
_UNDECODABLE = (
    *(ValueError, ArithmeticError, OSError, StructError, LookupError, RecursionError),
    AMQPError,
)

#: A header's class, weight and body size precede its properties.
_PROPERTIES = 12


def harmless_frames(connection: Any, callback: Callable[..., None]) -> Callable[[Frame], bool]:
    """Return a `frame_handler` for `amqp.Connection` that raises no error for any message.

    A body larger than the ``body_limit`` of its channel is dropped part by part. Channels without a
    limit may have any encoding.
    """
    handle = frame_handler(connection, callback)
    dropped: dict[int, int] = {}  # by channel: how many bytes of a body are still to come

    def on_frame(frame: Frame) -> bool:
        kind, channel, payload = frame
        if kind == BODY and channel in dropped:
            connection.bytes_recv += 1
            dropped[channel] -= len(payload)
            if dropped[channel] <= 0:
                del dropped[channel]
            return False
        if kind == METHOD:
            payload = _with_readable_key(payload)
        elif kind == HEADER:
            limit = getattr((connection.channels or {}).get(channel), "body_limit", None)
            (size,) = unpack_from(">Q", payload, 4)
            if limit is not None and size > limit:
                dropped[channel] = size
                payload = _header(payload, 0, OVERSIZED)
            elif not _decodable(payload, any_encoding=limit is None):
                payload = _header(payload, size, UNDECODABLE)
        return bool(handle((kind, channel, payload)))

    return on_frame


def _decodable(header: bytes, any_encoding: bool) -> bool:
    try:
        properties, _ = decode_properties_basic(header, _PROPERTIES)
    except _UNDECODABLE:
        return False
    encoding: str = properties.get("content_encoding", "utf-8")
    return any_encoding or encoding.lower() in ENCODINGS


def _header(header: bytes, body_size: int, content_type: str) -> bytes:
    """Return a content header with one property."""
    class_id, weight = unpack_from(">HH", header)
    name = content_type.encode()
    return pack(">HHQHB", class_id, weight, body_size, 0x8000, len(name)) + name


def _with_readable_key(method: bytes) -> bytes:
    """Replace a routing key that is not UTF-8 by an empty one. The agent does not use it."""
    if unpack_from(">HH", method) != spec.Basic.Deliver:
        return method
    at = 4
    at += 1 + method[at]  # the consumer's tag
    at += 8 + 1  # the delivery's tag, and whether it is delivered again
    at += 1 + method[at]  # the exchange
    try:
        method[at + 1 :].decode()
    except UnicodeDecodeError:
        return method[:at] + b"\0"
    return method
