"""A server that returns what it gets, and a client of a link to it."""

import contextlib
import queue
import socket
import threading

from tests.chaos.world.link import Link

#: Seconds of silence after which nothing is expected any more.
SILENCE = 0.2


class Echo:
    """A server that returns what it gets, after its name."""

    def __init__(self, name: bytes) -> None:
        self._listener, self._name = socket.create_server(("127.0.0.1", 0)), name
        self.received: queue.Queue[bytes] = queue.Queue()
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a test has closed it
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        try:
            while True:
                threading.Thread(target=self._echo, args=self._listener.accept()).start()
        except OSError:
            return

    def _echo(self, connection: socket.socket, _: object) -> None:
        with connection:
            try:
                while data := connection.recv(100):
                    if data != b"?":
                        self.received.put(data)
                    connection.sendall(self._name + data)
            except OSError:
                return


class Client:
    """A client of a link."""

    def __init__(self, link: Link) -> None:
        self._socket = socket.create_connection(("127.0.0.1", link.port))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, timeout: float = 30.0) -> bytes:
        self._socket.settimeout(timeout)
        return self._socket.recv(100)

    def ask(self) -> bytes:
        self.send(b"?")
        return self.receive()

    def close(self) -> None:
        self._socket.close()
