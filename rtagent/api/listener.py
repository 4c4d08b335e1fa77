"""Listener: accepts connections and serves them with a bounded number of threads."""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from socketserver import BaseServer, TCPServer
from typing import Any

from rtagent.api.address import Address
from rtagent.api.bind import bind
from rtagent.api.handler import Handler
from rtagent.api.sources import Sources
from rtagent.ports import Reporter

#: Requests that are served at once; others wait for their turn.
THREADS = 4
#: Connections that wait for their turn; those beyond it are closed at once.
WAITING = 32
#: Connections that the kernel holds until they are accepted.
BACKLOG = 128


class Listener(TCPServer):
    """Listens from the moment that it is made.

    :ivar patience: seconds that a client has to send its request, and again to take the answer.
    :raises ConfigError: the address cannot be had.
    """

    def __init__(
        self, address: Address, sources: Sources, reporter: Reporter, patience: float
    ) -> None:
        self.sources, self.reporter, self.patience = sources, reporter, patience
        listening = bind(address, BACKLOG)
        self._connections: set[socket.socket] = set()
        self._places = threading.BoundedSemaphore(THREADS + WAITING)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="read-api")
        # Not TCPServer's own beginning, which makes a socket of its own.
        BaseServer.__init__(self, str(address), Handler)
        self.socket = listening

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, _ = self.socket.accept()
        return connection, ("local", 0)  # a unix socket's client has no address

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._connections.add(request)
        self._pool.submit(self._serve, request, client_address)

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:  # the client went while it was being answered
            pass
        except Exception as error:  # the outermost frame of a worker
            self.reporter.said("error", f"read API: {error!r}")
        finally:
            self._connections.discard(request)
            self.shutdown_request(request)
            self._places.release()

    def server_close(self) -> None:
        super().server_close()
        for connection in tuple(self._connections):
            with contextlib.suppress(OSError):  # who has not asked by now is not waited for
                connection.shutdown(socket.SHUT_RD)
        self._pool.shutdown()
