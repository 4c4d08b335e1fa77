"""Links are cut, delayed and partitioned."""

import contextlib
import queue
import socket
import threading
from collections.abc import Iterator

import pytest

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


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo(b"one")
    yield server
    server.close()


@pytest.fixture
def link(echo: Echo) -> Iterator[Link]:
    with Link(echo.port) as link:
        yield link


@pytest.fixture
def client(link: Link) -> Iterator[Client]:
    client = Client(link)
    yield client
    client.close()


def refused(link: Link) -> bool:
    """Return whether a new connection ends without an answer."""
    client = Client(link)
    try:
        return client.ask() == b""
    except OSError:
        return True
    finally:
        client.close()


def test_a_link_relays(client: Client):
    assert client.ask() == b"one?"


def test_a_cut_ends_connections_and_refuses_new_ones(link: Link, client: Client):
    assert client.ask() == b"one?"
    link.cut()
    with pytest.raises(ConnectionError):
        client.receive()
    assert refused(link)
    link.heal()
    assert not refused(link)


def test_a_reset_ends_the_connections_of_the_moment(link: Link, client: Client):
    client.ask()
    link.reset()
    with pytest.raises(ConnectionError):
        client.receive()
    assert not refused(link)


def test_a_partition_delivers_later_what_was_sent(link: Link, client: Client):
    client.ask()
    link.swallow()
    client.send(b"!")
    late = Client(link)
    late.send(b"!")
    with pytest.raises(TimeoutError):
        client.receive(SILENCE)
    with pytest.raises(TimeoutError):
        late.receive(SILENCE)
    link.heal()
    assert client.receive() == late.receive() == b"one!"
    late.close()


def test_a_partition_of_one_direction(echo: Echo, link: Link, client: Client):
    client.ask()
    link.swallow(to_server=False)
    client.send(b"!")
    assert echo.received.get(timeout=30) == b"!"
    with pytest.raises(TimeoutError):
        client.receive(SILENCE)
    link.heal()
    assert client.receive() == b"one!"


def test_a_partition_can_end_with_a_cut(link: Link, client: Client):
    client.ask()
    link.swallow()
    link.cut()
    with pytest.raises(ConnectionError):
        client.receive()
    assert link.connections == 0


def test_a_delay_lets_everything_arrive_later(link: Link, client: Client):
    client.ask()
    link.delay(3600)
    client.send(b"!")
    with pytest.raises(TimeoutError):
        client.receive(SILENCE)
    link.heal()
    assert client.receive() == b"one!"


def test_a_link_leads_to_another_server(link: Link, client: Client):
    client.ask()
    other = Echo(b"two")
    try:
        link.retarget(other.port)
        with pytest.raises(ConnectionError):
            client.receive()
        again = Client(link)
        assert again.ask() == b"two?"
        again.close()
    finally:
        other.close()


def test_a_server_that_is_down_refuses(echo: Echo, link: Link):
    echo.close()
    assert refused(link)
