"""The connection of the host lock is made as oslo.messaging makes its own."""

import socket
import threading

import pytest

from rtagent.rpc.host_lock import Attempt
from tests.support.rpc import Contender

#: What a client sends first: with TLS a handshake record, without it the protocol's name.
TLS, PLAIN = b"\x16", b"A"


@pytest.mark.parametrize(("query", "first"), [("", PLAIN), ("?ssl=1", TLS), ("?ssl=0", PLAIN)])
def test_options_in_the_url_count(query, first):
    received = []

    def broker(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            received.append(connection.recv(1))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=broker, args=(listening,))
        thread.start()
        port = listening.getsockname()[1]
        contender = Contender(f"rabbit://u:p@127.0.0.1:{port}/{query}", "h")
        assert contender.attempt() is Attempt.UNREACHABLE
        thread.join()
    assert received == [first]
