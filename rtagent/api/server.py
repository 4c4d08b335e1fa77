"""ReadAPI: serves the read API with waitress, at one address."""

import contextlib
import logging
import os
import resource
import threading
import time
from functools import partial
from typing import Any

from waitress import wasyncore
from waitress.adjustments import Adjustments

from rtagent.api.address import MODE, OPEN_MODE, Address, TcpAddress, UnixAddress, bind
from rtagent.api.application import Answering, Application
from rtagent.api.connections import Listener
from rtagent.api.guard import Guard
from rtagent.conf.rpc import Api
from rtagent.errors import ConfigError
from rtagent.ports import NullReporter, Reporter

#: Seconds that a client has to send its request, and again to receive the reply.
PATIENCE = 5.0

#: Seconds after which the event loop goes on when it has failed.
RETRY_AFTER = 1.0
#: Requests that are answered at the same time; others wait for a thread. A thread is started when
#: a request finds none idle.
THREADS = 4
#: Connections at the same time, and the part of the process's descriptors that they may use.
CONNECTIONS = 36
SHARE = 1 / 8
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
        sources: Answering,
        reporter: Reporter | None = None,
        *,
        guard: Guard | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """:param guard: of a TCP address; None: everyone who can connect may read.
        :param patience: seconds that a client has to send its request, and again to receive the
        reply. It is disconnected within a second after that."""
        self._address, self._patience = address, patience
        self._reporter = (reporter or NullReporter()).named(__name__)
        self._guard = guard
        self._application = Application(sources, reporter or NullReporter(), guard)
        self._channels: dict[int, Any] = {}
        self._server: Listener | None = None
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
        return TcpAddress(int(self._server.effective_port), self._address.host)

    def start(self) -> None:
        """Listen, and serve in threads of its own.

        :raises ConfigError: the address cannot be used.
        """
        listening = bind(self._address, BACKLOG, self._mode)
        if isinstance(self._address, UnixAddress):
            self._inode = os.stat(self._address.path).st_ino
        # Requests that wait for a thread are intended, and need no warning.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        adjustments = Adjustments(
            sockets=[listening],
            threads=THREADS,
            backlog=BACKLOG,
            connection_limit=_connections(),
            max_request_header_size=MAX_HEAD,
            max_request_body_size=MAX_BODY,
            inbuf_overflow=MAX_BODY,
            outbuf_overflow=UNLIMITED,
            outbuf_high_watermark=UNLIMITED,
            log_socket_errors=False,
            ident="rtagent",
            url_scheme="http" if self._guard is None or self._guard.tls is None else "https",
        )
        closed = partial(self._reporter.counted, "read_api_closed")
        self._server = Listener(
            self._application, self._channels, listening, adjustments, closed, self._guard
        )
        self._stop_requested.clear()
        self._thread = threading.Thread(
            target=self._serve, args=(self._server,), name="read-api", daemon=True
        )
        self._thread.start()

    def reload(self, options: Api) -> None:
        """Read the certificate, the tokens and the readers again. After an error, the old ones are
        kept."""
        if self._guard is None:
            return
        try:
            self._guard.reload(options)
        except ConfigError as error:
            self._reporter.log("error", f"the old tokens, certificate and readers stay: {error}")
            return
        if isinstance(self._address, UnixAddress) and self._is_own():
            os.chmod(self._address.path, self._mode)

    @property
    def _mode(self) -> int:
        """The mode of a unix socket."""
        return OPEN_MODE if self._guard is not None and self._guard.is_open else MODE

    def stop(self) -> None:
        """Accept no more connections, and finish the requests that were received. Idempotent."""
        if self._thread is None or self._server is None:
            return
        self._unlink()
        self._stop_requested.set()
        self._server.pull_trigger()
        self._thread.join()
        self._server = self._thread = None

    def _serve(self, server: Listener) -> None:
        """Run waitress's event loop. waitress's own function for the loop ends only by an
        exception.
        """
        while not self._stop_requested.is_set():
            self._turn(server)
        wasyncore.dispatcher.close(server)  # only the listening socket, not the trigger
        deadline = time.monotonic() + self._patience
        while server.finish() and time.monotonic() < deadline:
            self._turn(server)
        server.task_dispatcher.shutdown()
        wasyncore.close_all(self._channels)

    def _turn(self, server: Listener) -> None:
        """Wait for events, for a second at most, and handle them; then enforce the deadlines."""
        try:
            # select() would fail with descriptors above 1023.
            wasyncore.loop(timeout=1, use_poll=True, map=self._channels, count=1)
            server.close_overdue(time.monotonic() - self._patience)
        except Exception as error:  # the thread's outermost loop: the API must not just end
            self._reporter.log("error", f"the read API failed and continues: {error!r}")
            time.sleep(RETRY_AFTER)

    def _unlink(self) -> None:
        """Remove the socket, unless another agent has replaced it with its own."""
        if isinstance(self._address, UnixAddress) and self._is_own():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._address.path)

    def _is_own(self) -> bool:
        """Whether the socket at the path is that of this process."""
        with contextlib.suppress(FileNotFoundError):
            return os.stat(str(self._address)).st_ino == self._inode
        return False


def _connections() -> int:
    """Return the largest number of connections: the agent's other parts need descriptors, too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return CONNECTIONS
    return max(THREADS, min(CONNECTIONS, int(soft * SHARE)))
