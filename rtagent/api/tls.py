"""TlsConnection: a TLS connection that an asyncore channel can use.

The handshake takes place while the channel reads, so a slow one is bounded like a slow request.
"""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from typing import Any


class NotYet(Exception):
    """A record, or the handshake, is not complete: there is nothing to read yet."""


class TlsConnection:
    """A non-blocking TLS connection, with the methods of a socket that a channel calls.

    OpenSSL does not allow a read and a write of one connection at the same time.
    """

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        """:raises OSError: the client has gone already."""
        connection.setblocking(False)
        self._lock = threading.Lock()
        self._tls = context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
        )

    def recv(self, size: int) -> bytes:
        """Return what is there, at most the rest of a record more than `size`; b"": the end.

        The rest would not make the socket readable again.

        :raises NotYet: :raises OSError: the connection cannot be used.
        """
        with self._lock:
            try:
                data = self._tls.recv(size)
                while data and (rest := self._tls.pending()):
                    data += self._tls.recv(rest)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wait:
                raise NotYet from wait
        return data

    def send(self, data: bytes) -> int:
        """Send a part of the data. :raises BlockingIOError: nothing can be sent now."""
        with self._lock:
            try:
                return self._tls.send(data)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wait:
                raise BlockingIOError(errno.EWOULDBLOCK, "TLS waits") from wait

    def close(self) -> None:
        """Close it, without waiting for the client."""
        self._tls.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tls, name)
