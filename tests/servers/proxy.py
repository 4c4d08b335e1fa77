"""A TCP relay in front of a database that loses connections at the moments that matter."""

import contextlib
import enum
import re
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from sqlalchemy.engine import make_url

# Not the name of an isolation level.
_COMMIT = re.compile(rb"COMMIT(?!TED)")


class Fate(enum.Enum):
    """What becomes of the next COMMIT."""

    LOST = enum.auto()  # it never arrives
    UNANSWERED = enum.auto()  # it is done, and its answer never arrives
    LATE = enum.auto()  # the client is cut off, and it arrives when `release` is called


class Proxy:
    """Relays to a port of this machine, until it is closed."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._relays: set[_Relay] = set()
        self._lock = threading.Lock()
        self._fate: Fate | None = None
        self.released = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """The same database, by way of the proxy."""
        port = self._listener.getsockname()[1]
        return make_url(url).set(port=port).render_as_string(hide_password=False)

    def doom(self, fate: Fate) -> None:
        """What is to become of the next COMMIT."""
        self.released.clear()
        self._fate = fate

    def release(self) -> None:
        """Let a late COMMIT arrive."""
        self.released.set()

    def cut(self) -> None:
        """Lose every connection."""
        with self._lock:
            relays, self._relays = self._relays, set()
        for relay in relays:
            relay.close()

    def take(self) -> Fate | None:
        """The fate of a COMMIT that is passing."""
        with self._lock:
            fate, self._fate = self._fate, None
        return fate

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.release()
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
    """One connection: a thread for each direction."""

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
            fate = self._proxy.take() if _COMMIT.search(data) else None
            if fate is Fate.LOST:
                return
            self._answers = fate is None
            if fate is Fate.LATE:
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
