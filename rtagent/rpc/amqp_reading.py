"""A connection's socket to the broker, read in large parts.

py-amqp reads each frame in three parts, and a message has three frames. Each of these reads is a
system call, in which other threads of the process may take over.
"""

from __future__ import annotations

import errno
from collections import deque
from struct import unpack_from
from typing import Any

from amqp.exceptions import UnexpectedFrame
from amqp.transport import TCPTransport

from rtagent.rpc.amqp_frames import Frame

#: The number of bytes that are read at most at a time.
PART = 65_536
#: The bytes of a frame before its payload: its type, its channel and the size of the payload.
_HEAD = 7
#: The byte that ends each frame.
_END = 0xCE
#: The error numbers that do not end the connection.
_AGAIN = frozenset({errno.EAGAIN, errno.EINTR, errno.ENOENT})


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
