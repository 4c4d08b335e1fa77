"""Frames: those that py-amqp cannot decode, and bodies that are too large."""

from struct import pack
from types import SimpleNamespace
from typing import Any

import amqp
import pytest
from amqp import spec
from amqp.serialization import dumps

from rtagent.rpc.amqp_frames import BODY, HEADER, METHOD, OVERSIZED, UNDECODABLE, harmless_frames

LIMIT = 100


class Receiver:
    """Feeds frames of one channel. :ivar got: the messages that arrived, with their arguments."""

    def __init__(self, limit: int | None = LIMIT) -> None:
        self.got: list[tuple[bytes, Any]] = []
        channel = SimpleNamespace(body_limit=limit)
        self._connection = SimpleNamespace(bytes_recv=0, channels={1: channel})
        self._on_frame = harmless_frames(self._connection, self._callback)

    def _callback(self, channel: int, method: object, arguments: bytes, message: Any) -> None:
        self.got.append((arguments, message))

    def deliver(self, properties: bytes, *parts: bytes, key: bytes = b"key") -> None:
        """Feed one message, whose body has come in parts."""
        arguments = dumps("sLbss", ["tag", 7, False, "exchange", key])
        self._on_frame((METHOD, 1, pack(">HH", *spec.Basic.Deliver) + arguments))
        size = sum(map(len, parts))
        self._on_frame((HEADER, 1, pack(">HHQ", spec.Basic.CLASS_ID, 0, size) + properties))
        for part in parts:
            self._on_frame((BODY, 1, part))


def plain() -> bytes:
    properties: bytes = amqp.Message(content_type="application/json")._serialize_properties()
    return properties


def test_a_body_within_the_limit_arrives():
    receiver = Receiver()
    receiver.deliver(plain(), b"a" * 60, b"b" * 40)
    ((_, message),) = receiver.got
    assert message.body == b"a" * 60 + b"b" * 40
    assert message.properties == {"content_type": "application/json"}


def test_a_larger_body_is_dropped_and_the_next_message_arrives():
    receiver = Receiver()
    receiver.deliver(plain(), b"a" * 60, b"b" * 60, b"c" * 60)
    receiver.deliver(plain(), b"d")
    (_, large), (_, small) = receiver.got
    assert large.properties == {"content_type": OVERSIZED}
    assert large.body == ""
    assert small.body == b"d"


@pytest.mark.parametrize(
    "properties",
    [
        b"\x80\x00\x02\xff\xfe",  # a content type that is not UTF-8
        b"\x20\x00\x00\x00\x00\x0b\x01kT" + b"\xff" * 8,  # a time in the far future
        b"\x20\x00\x00\x00\x00\x03\x01k?",  # a type that does not exist
        b"\x80",  # too short
        b"\x40\x00\x08punycode",
    ],
)
def test_properties_that_cannot_be_decoded_are_replaced(properties: bytes):
    receiver = Receiver()
    receiver.deliver(properties, b"body")
    receiver.deliver(plain(), b"next")
    (_, odd), (_, following) = receiver.got
    assert (odd.properties, odd.body) == ({"content_type": UNDECODABLE}, b"body")
    assert following.body == b"next"


def test_a_routing_key_that_is_not_utf_8_is_replaced():
    receiver = Receiver()
    receiver.deliver(plain(), b"body", key=b"\xff\xfe")
    ((arguments, _),) = receiver.got
    assert arguments.endswith(b"exchange\0")


def test_the_name_of_an_encoding_may_be_in_capitals():
    receiver = Receiver()
    receiver.deliver(b"\x40\x00\x05UTF-8", b"body")
    assert receiver.got[0][1].properties == {"content_encoding": "UTF-8"}


def test_channels_without_a_limit_have_bodies_of_any_size_and_encoding():
    receiver = Receiver(limit=None)
    receiver.deliver(plain(), b"a" * 1000)
    receiver.deliver(b"\x40\x00\x06utf-16", b"body")
    receiver.deliver(b"\x80\x00\x02\xff\xfe", b"body")
    (_, large), (_, encoded), (_, odd) = receiver.got
    assert len(large.body) == 1000
    assert encoded.properties == {"content_encoding": "utf-16"}
    assert odd.properties == {"content_type": UNDECODABLE}
