"""Frames are whole and in order, however their bytes arrive."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from struct import pack

import pytest
from amqp.exceptions import UnexpectedFrame

from rtagent.rpc.amqp_frames import PART, FrameSocket

LARGE = b"x" * (2 * PART)


def frame(payload: bytes, kind: int = 1, channel: int = 7) -> bytes:
    return pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


class Broker:
    """The other end of a connection. :ivar received: the transport that reads from it."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair()
        self.received = FrameSocket("localhost:5672")
        self.received.sock, self.received.connected = mine, True
        self._socket = theirs
        # A test that waits for what never comes fails.
        mine.settimeout(30)

    def send(self, sent: bytes) -> None:
        self._socket.sendall(sent)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.close()
    broker.received.sock.close()


def test_frames_that_arrive_together_are_read_once(broker):
    broker.send(frame(b"method") + frame(b"header", kind=2) + frame(b"", kind=8, channel=0))
    assert not broker.received.has_frame
    assert broker.received.read_frame() == (1, 7, b"method")
    assert broker.received.has_frame
    assert broker.received.read_frame() == (2, 7, b"header")
    assert broker.received.read_frame() == (8, 0, b"")
    assert not broker.received.has_frame


def test_a_frame_that_arrives_in_parts_is_whole(broker):
    sent = frame(b"first") + frame(b"second")
    broker.received.sock.settimeout(0)
    for at in range(len(sent)):
        if at == len(frame(b"first")):
            assert broker.received.read_frame() == (1, 7, b"first")
        with pytest.raises(TimeoutError):
            broker.received.read_frame()
        broker.send(sent[at : at + 1])
    assert broker.received.read_frame() == (1, 7, b"second")


def test_a_frame_may_be_larger_than_what_is_read_at_a_time(broker):
    sent = frame(LARGE, kind=3) + frame(b"next")
    for begin in range(0, len(sent), PART // 4):
        broker.send(sent[begin : begin + PART // 4])
        if begin < len(LARGE):
            with broker.received.having_timeout(0), pytest.raises(TimeoutError):
                broker.received.read_frame()
    assert broker.received.read_frame() == (3, 7, LARGE)
    assert broker.received.read_frame() == (1, 7, b"next")


def test_an_end_of_the_connection_is_an_error(broker):
    broker.send(frame(b"last") + frame(b"cut off")[:-1])
    broker.close()
    assert broker.received.read_frame() == (1, 7, b"last")
    with pytest.raises(OSError, match="closed the connection"):
        broker.received.read_frame()
    assert not broker.received.connected


def test_what_does_not_end_as_a_frame_is_an_error(broker):
    broker.send(frame(b"payload")[:-1] + b"\x00 and more")
    with pytest.raises(UnexpectedFrame):
        broker.received.read_frame()
