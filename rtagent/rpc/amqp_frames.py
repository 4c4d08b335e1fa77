"""AMQP frames: read them in large parts, replace those that py-amqp cannot decode, and drop bodies
that are too large.

py-amqp reads each frame in three parts, and a message has three frames. Each of these reads is a
system call, in which other threads of the process may take over.

py-amqp decodes the properties and the routing key of every message that arrives, and keeps its
body. An error there ends the connection with the message still in the queue, so that the same
message ends the next connection, too. And a body may be as large as the broker allows.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Mapping
from struct import error as StructError
from struct import pack, unpack_from
from typing import Any

from amqp import AMQPError, spec
from amqp.exceptions import UnexpectedFrame
from amqp.method_framing import frame_handler
from amqp.serialization import decode_properties_basic
from amqp.transport import TCPTransport

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

#: The number of bytes that are read at most at a time.
PART = 65_536
#: The bytes of a frame before its payload: its type, its channel and the size of the payload.
_HEAD = 7
#: The byte that ends each frame.
_END = 0xCE
#: The error numbers that do not end the connection.
_AGAIN = frozenset({errno.EAGAIN, errno.EINTR, errno.ENOENT})

#: Errors of py-amqp's decoder: its own one is about a type that it does not know.
_UNDECODABLE = (
    *(ValueError, ArithmeticError, OSError, StructError, LookupError, RecursionError),
    AMQPError,
)

#: A header's class, weight and body size precede its properties.
_PROPERTIES = 12


class FrameSocket(TCPTransport):
    """A transport of py-amqp that keeps the frames that have arrived until they are wanted."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._frames: deque[Frame] = deque()
        self._rest = b""

    @property
    def has_frame(self) -> bool:
        """Whether `read_frame` returns at once, without a system call."""
        return bool(self._frames)

    def read_frame(self, *_: Any) -> Frame:
        """Return the next frame.

        :raises TimeoutError: it has not arrived within the time-out of the socket.
        :raises OSError: the connection has ended. :raises UnexpectedFrame: it is not a frame.
        """
        while not self._frames:
            self._receive()
        return self._frames.popleft()

    def _receive(self) -> None:
        try:
            part = self.sock.recv(PART)
        except TimeoutError:
            raise
        except OSError as error:
            if error.errno in _AGAIN:
                raise TimeoutError from error
            self.connected = False
            raise
        if not part:
            self.connected = False
            raise OSError("the message broker has closed the connection")
        self._split(self._rest + part)

    def _split(self, received: bytes) -> None:
        """Keep the complete frames, and the rest."""
        begin, size = 0, len(received)
        while size - begin > _HEAD:
            kind, channel, length = unpack_from(">BHI", received, begin)
            end = begin + _HEAD + length
            if end >= size:
                break
            if received[end] != _END:
                raise UnexpectedFrame(f"a frame ends with {received[end]:#04x}, not {_END:#04x}")
            self._frames.append((kind, channel, received[begin + _HEAD : end]))
            begin = end + 1
        self._rest = received[begin:]


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
            limit = _body_limit(connection.channels or {}, channel)
            size = _body_size(payload)
            if limit is not None and size > limit:
                dropped[channel] = size
                payload = _header(payload, 0, OVERSIZED)
            elif not _decodable(payload, any_encoding=limit is None):
                payload = _header(payload, size, UNDECODABLE)
        return bool(handle((kind, channel, payload)))

    return on_frame


def _body_limit(channels: Mapping[int, object], channel: int) -> int | None:
    limit: int | None = getattr(channels.get(channel), "body_limit", None)
    return limit


def _body_size(header: bytes) -> int:
    return int(unpack_from(">Q", header, 4)[0])


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
