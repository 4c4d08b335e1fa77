"""Connections of the read API: waitress's listener and channels, with limits and deadlines.

waitress has a single timeout, which restarts with every byte, and it accepts no connection while
its limit is reached. So clients that send nothing could occupy all connections. It has no TLS: the
handshake takes place while the channel reads, so a slow one is bounded like a slow request.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher, WSGITask

from rtagent.api.application import PEER, Application
from rtagent.api.guard import Guard, peer_of
from rtagent.api.reply import failure

#: Errors of accept(2) for lack of descriptors or memory. The connection keeps waiting.
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

#: Seconds for which nothing is accepted when there is no descriptor for a connection.
PAUSE = 1.0

#: Called when a connection is closed although its client has not: with ``"deadline"``, or with
#: ``"limit"`` in favour of another connection.
Closed = Callable[[str], None]


class RequestWorkers(ThreadedTaskDispatcher):
    """Threads that serve requests: another one is started when none is idle."""

    def __init__(self, most: int) -> None:
        """:param most: how many there are at most."""
        super().__init__()
        self._most = most

    def add_task(self, task: Any) -> None:
        """Have a request served."""
        with self.lock:
            number = len(self.threads) - self.stop_count
            idle = number - self.active_count
            more = len(self.queue) >= idle and number < self._most
        if more:
            self.set_thread_count(number + 1)
        super().add_task(task)


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


class Listener(BaseWSGIServer):
    """Accepts connections. At the limit, a new one replaces the one that has been idle for longest.

    A connection whose request is complete is never closed for another one. So a client that sends
    its request at once, such as a probe, is served however many silent clients there are.
    """

    def __init__(
        self,
        application: Application,
        channels: dict[int, Any],
        listening: socket.socket,
        adjustments: Adjustments,
        closed: Closed,
        guard: Guard | None = None,
    ) -> None:
        """:param adjustments: of waitress; `connection_limit` counts connections only.
        :param guard: its TLS encrypts the connections.
        """
        self._closed, self._guard = closed, guard
        self._accepts_at = 0.0
        dispatcher = RequestWorkers(adjustments.threads)
        self.channel_class = ClientChannel
        super().__init__(
            application,
            channels,
            _sock=listening,
            dispatcher=dispatcher,
            adj=adjustments,
            bind_socket=False,
            sockinfo=(listening.family, listening.type, listening.proto, listening.getsockname()),
        )

    def getsockname(self) -> tuple[str, Any]:
        """Return the host and the port, or the path, for the variables of WSGI."""
        name = self.socket.getsockname()
        return ("unix", name) if self.family == socket.AF_UNIX else (name[0], name[1])

    def fix_addr(self, addr: Any) -> tuple[str, Any]:
        """Return the client's address for the variables of WSGI: a unix socket's is empty."""
        return ("localhost", None) if self.family == socket.AF_UNIX else addr

    def readable(self) -> bool:
        """Whether a connection can be accepted now."""
        if not self.accepting or time.monotonic() < self._accepts_at:
            return False
        return not self._full() or bool(self._idle())

    def handle_accept(self) -> None:
        """Accept one connection, so that its request is read before others are accepted."""
        if self._full() and not self._close_idle():
            return
        try:
            connection, address = self.socket.accept()
        except OSError as error:  # otherwise the client has gone already
            if error.errno in EXHAUSTED and not self._close_idle():
                self._accepts_at = time.monotonic() + PAUSE
            return
        with suppress(OSError):  # the client has gone already
            ClientChannel(
                self, self._encrypted(connection), self.fix_addr(address), self.adj, map=self._map
            )

    def _encrypted(self, connection: socket.socket) -> socket.socket | TlsConnection:
        """Return the connection, with TLS if the guard has it. :raises OSError:"""
        context = None if self._guard is None else self._guard.tls
        try:
            return connection if context is None else TlsConnection(connection, context)
        except OSError:
            connection.close()
            raise

    def close_overdue(self, since: float) -> None:
        """Close the connections that have been idle since a time of the monotonic clock."""
        for channel in self._idle():
            if channel.since < since:
                channel.handle_close()
                self._closed("deadline")

    def finish(self) -> bool:
        """Close the connections without a request. Return whether others are left, with a request
        or a part of a reply.
        """
        for channel in self._idle():
            if not channel.total_outbufs_len:
                channel.handle_close()
        return bool(self.active_channels)

    def _full(self) -> bool:
        limit: int = self.adj.connection_limit
        return len(self.active_channels) >= limit

    def _idle(self) -> list[ClientChannel]:
        """Return the connections that wait for their clients: to send a request, or to receive."""
        return [each for each in self.active_channels.values() if not each.requests]

    def _close_idle(self) -> bool:
        """Close an idle connection, if there is one: the oldest of those without a reply first."""
        for channel in sorted(
            self._idle(), key=lambda each: (each.total_outbufs_len > 0, each.since)
        ):
            if not _has_sent(channel.socket):
                channel.handle_close()
                self._closed("limit")
                return True
        return False


def _has_sent(connection: socket.socket | TlsConnection) -> bool:
    """Whether there are bytes of the client that were not read yet."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


class _Task(WSGITask):
    """Answers one request and closes the connection, so that clients that keep connections open
    cannot occupy all of them."""

    def get_environment(self) -> dict[str, Any]:
        """Return the variables of WSGI, and the peer of a unix socket."""
        return {**super().get_environment(), PEER: self.channel.peer}

    def build_response_header(self) -> bytes:
        self.set_close_on_finish()
        header: bytes = super().build_response_header()
        return header


class _ErrorTask(ErrorTask):
    """Answers a request that is not valid HTTP. The answer is JSON, like all errors."""

    def execute(self) -> None:
        error = self.request.error
        reply = failure(HTTPStatus(error.code), error.body)
        self.status = f"{reply.status.value} {reply.status.phrase}"
        self.response_headers.append(("Content-Type", reply.media_type))
        self.set_close_on_finish()
        self.content_length = len(reply.body)
        self.write(reply.body)


class ClientChannel(HTTPChannel):
    """A connection.

    :ivar since: start of the current deadline: when the client connected, or when its last reply
        was ready.
    :ivar peer: the process at the other end of a unix socket; None: it is connected over TCP.
    """

    task_class = _Task
    error_task_class = _ErrorTask

    def __init__(self, server: Listener, connection: Any, *arguments: Any, **named: Any) -> None:
        self.since = time.monotonic()
        self.peer = peer_of(connection) if server.family == socket.AF_UNIX else None
        super().__init__(server, connection, *arguments, **named)

    def handle_read(self) -> None:
        """Read what is there. Of TLS, that may be a part of a record only."""
        with suppress(NotYet):
            super().handle_read()

    def service(self) -> None:
        """Answer one request."""
        self.since = time.monotonic()
        super().service()
        self.since = time.monotonic()
