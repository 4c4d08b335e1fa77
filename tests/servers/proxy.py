"""A TCP relay in front of a database that loses connections during a COMMIT."""

import contextlib
import enum
import re
import socket
import threading
from collections.abc import Callable
from typing import Self

from sqlalchemy.engine import make_url

# Not the name of an isolation level.
_COMMIT = re.compile(rb"COMMIT(?!TED)")


class CommitLoss(enum.Enum):
    """What happens to the next COMMIT."""

    LOST = enum.auto()  # it does not arrive
    UNANSWERED = enum.auto()  # it is executed, but its answer does not arrive
    LATE = enum.auto()  # the client is disconnected, and it arrives when `release` is called


class Proxy:
    """Relays connections to a port of this machine, until it is closed."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._relays: set[_Relay] = set()
        self._lock = threading.Lock()
        self._loss: CommitLoss | None = None
        self.released = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """Return the URL of the same database through the proxy."""
        port = self._listener.getsockname()[1]
        return make_url(url).set(port=port).render_as_string(hide_password=False)

    def lose_commit(self, loss: CommitLoss) -> None:
        """Lose the connection of the next COMMIT in this way."""
        self.released.clear()
        self._loss = loss

    def release(self) -> None:
        """Let a `LATE` COMMIT arrive."""
        self.released.set()

    def cut(self) -> None:
        """Close every connection."""
        with self._lock:
            relays, self._relays = self._relays, set()
        for relay in relays:
            relay.close()

    def take(self) -> CommitLoss | None:
        """Return how to lose the COMMIT that passes, once; None: relay it."""
        with self._lock:
            loss, self._loss = self._loss, None
        return loss

    def close(self) -> None:
        """Close the port and every connection."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.release()
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._relays.add(_Relay(self, client, server))


class _Relay:
    """One connection, with a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = True
        for pump in (self._upstream, self._downstream):
            threading.Thread(target=self._run, args=(pump,), daemon=True).start()

    def close(self) -> None:
        _close(self._client)
        _close(self._server)

    def _run(self, pump: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):
            pump()
        self.close()

    def _upstream(self) -> None:
        while data := self._client.recv(65536):
            loss = self._proxy.take() if _COMMIT.search(data) else None
            if loss is CommitLoss.LOST:
                return
            self._answers = loss is None
            if loss is CommitLoss.LATE:
                _close(self._client)
                self._proxy.released.wait()
            self._server.sendall(data)

    def _downstream(self) -> None:
        while (data := self._server.recv(65536)) and self._answers:
            self._client.sendall(data)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
