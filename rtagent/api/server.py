"""ReadAPI: serves the read API with waitress, at one address."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.task import ErrorTask, WSGITask

import rtagent
from rtagent.api.address import Address, TcpAddress, UnixAddress, bind
from rtagent.api.application import Application
from rtagent.api.reply import document, problem
from rtagent.api.routes import Sources
from rtagent.ports import NullReporter, Reporter

#: Seconds that a client has to send its request, and again to receive the reply.
PATIENCE = 5.0

#: Seconds after which the event loop goes on when it has failed.
RETRY_AFTER = 1.0
#: Requests that are answered at the same time; others wait for a thread.
THREADS = 4
#: Connections at the same time; others wait to be accepted.
CONNECTIONS = 36
#: Connections that may wait to be accepted; others are refused.
BACKLOG = 128
#: Bytes of a request line with its headers, and of a body, which no request needs.
MAX_HEAD = 16 * 1024
MAX_BODY = 256 * 1024
#: Bytes of a reply that may wait to be sent. The limit is never reached, so a reply neither blocks
#: its thread nor goes into a temporary file.
UNLIMITED = 1 << 40


class ReadAPI:
    """JSON over HTTP, made from the published snapshot."""

    def __init__(
        self,
        address: Address,
        sources: Sources,
        reporter: Reporter | None = None,
        *,
        patience: float = PATIENCE,
    ) -> None:
        """:param patience: seconds that a client has to send its request, and again to receive the
        reply. It is disconnected within a second after that."""
        self._address, self._patience = address, patience
        self._reporter = (reporter or NullReporter()).named(__name__)
        self._application = Application(sources, reporter or NullReporter())
        self._channels: dict[int, Any] = {}
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._stop_requested = threading.Event()
        self._inode = 0

    @property
    def address(self) -> Address:
        """The address on which it listens. After the start, a port 0 is replaced by the chosen
        port.
        """
        if self._server is None or isinstance(self._address, UnixAddress):
            return self._address
        return TcpAddress(int(self._server.effective_port))

    def start(self) -> None:
        """Listen, and serve in threads of its own.

        :raises ConfigError: the address cannot be used.
        """
        listening = bind(self._address, BACKLOG)
        if isinstance(self._address, UnixAddress):
            self._inode = os.stat(self._address.path).st_ino
        # Requests that wait for a thread are intended, and need no warning.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._server = create_server(
            self._application,
            map=self._channels,
            sockets=[listening],
            threads=THREADS,
            backlog=BACKLOG,
            connection_limit=CONNECTIONS + 2,  # waitress also counts its own two sockets
            max_request_header_size=MAX_HEAD,
            max_request_body_size=MAX_BODY,
            inbuf_overflow=MAX_BODY,
            outbuf_overflow=UNLIMITED,
            outbuf_high_watermark=UNLIMITED,
            asyncore_use_poll=True,  # select() fails with descriptors above 1023
            log_socket_errors=False,
            ident=f"rtagent/{rtagent.__version__}",
        )
        self._server.channel_class = _Channel
        self._stop_requested.clear()
        self._thread = threading.Thread(target=self._serve, name="read-api", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Accept no more connections, and finish the requests that were received. Idempotent."""
        if self._thread is None:
            return
        self._unlink()
        self._stop_requested.set()
        self._server.pull_trigger()
        self._thread.join()
        self._server = self._thread = None

    def _serve(self) -> None:
        """Run waitress's event loop. waitress's own function for the loop ends only by an
        exception.
        """
        while not self._stop_requested.is_set():
            try:
                self._turn()
            except Exception as error:  # the thread's outermost loop: the API must not just end
                self._reporter.log("error", f"the read API failed and continues: {error!r}")
                time.sleep(RETRY_AFTER)
        wasyncore.dispatcher.close(self._server)  # only the listening socket, not the trigger
        deadline = time.monotonic() + self._patience
        while self._busy() and time.monotonic() < deadline:
            self._turn()
        self._server.task_dispatcher.shutdown()
        wasyncore.close_all(self._channels)

    def _turn(self) -> None:
        """Wait for events, for a second at most, and handle them; then enforce the deadlines.

        waitress has a single timeout. It restarts with every byte, and it does not close a
        connection whose client receives nothing. So slow clients could occupy all connections.
        """
        wasyncore.loop(timeout=1, use_poll=True, map=self._channels, count=1)
        overdue = time.monotonic() - self._patience
        self._close(lambda channel: channel.since < overdue)

    def _busy(self) -> bool:
        """Close idle connections. Return whether others are left, with a request or a part of a
        reply.
        """
        self._close(lambda channel: not channel.total_outbufs_len)
        return bool(self._server.active_channels)

    def _close(self, condition: Callable[[_Channel], bool]) -> None:
        """Close the connections that meet the condition and have no request in progress."""
        for channel in tuple(self._server.active_channels.values()):
            if not channel.requests and condition(channel):
                channel.handle_close()

    def _unlink(self) -> None:
        """Remove the socket, unless another agent has replaced it with its own."""
        if isinstance(self._address, UnixAddress):
            with contextlib.suppress(FileNotFoundError):
                if os.stat(self._address.path).st_ino == self._inode:
                    os.unlink(self._address.path)


class _Task(WSGITask):
    """Answers one request and closes the connection, so that clients that keep connections open
    cannot occupy all of them."""

    def build_response_header(self) -> bytes:
        self.set_close_on_finish()
        header: bytes = super().build_response_header()
        return header


class _ErrorTask(ErrorTask):
    """Answers a request that is not valid HTTP. The answer is JSON, like all errors."""

    def execute(self) -> None:
        error = self.request.error
        status = HTTPStatus(error.code)
        reply = document(problem(status, error.body))
        self.status = f"{status.value} {status.phrase}"
        self.response_headers.append(("Content-Type", reply.media_type))
        self.set_close_on_finish()
        self.content_length = len(reply.body)
        self.write(reply.body)


class _Channel(HTTPChannel):
    """A connection.

    :ivar since: start of the current deadline: when the client connected, or when its last reply
        was ready.
    """

    task_class = _Task
    error_task_class = _ErrorTask

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.since = time.monotonic()
        super().__init__(*arguments, **named)

    def service(self) -> None:
        """Answer one request."""
        self.since = time.monotonic()
        super().service()
        self.since = time.monotonic()
