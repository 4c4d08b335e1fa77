"""Messages that must not harm an agent: their texts, their envelopes and their AMQP properties."""

import json
from typing import Any

from tests.functional.rpc.raw_messages import JSON, envelope, request

TEXTS = {
    "empty": "",
    "not json": "not json",
    "null": "null",
    "list": "[]",
    "number": "7",
    "no method": "{}",
    "deep": "[" * 100_000,
    "deep arguments": json.dumps(request(args={"a": 1})).replace("1", "[" * 9000 + "]" * 9000),
    "huge number": json.dumps(request(args={"node": 7})).replace("7", "7" * 100_000),
    "many values": json.dumps(request(args={"node": [0] * 60_000})),
    "many keys": json.dumps(request(**{f"k{n}": n for n in range(20_000)})),
    "an envelope": json.dumps(request(**{"oslo.version": "2.0", "oslo.message": "{"})),
    "bad escape": '{"method": "ping", "args": {"node": "\\x"}}',
    "half a character": '{"method": "ping", "args": {"node": "\\ud800", "\\ud800": 1}}',
    **{
        f"{name}={json.dumps(value)[:20]}": json.dumps(request(**{name: value}))
        for name, values in {
            "method": (
                None,
                7,
                [],
                {},
                "",
                "m" * 100_000,
                "a\nb",
                "__class__",
                "_served",
                "\ud800",
            ),
            "version": (
                None,
                1.0,
                "",
                "1",
                "x.y",
                "1." + "9" * 9000,
                "1.0.0.0",
                "-1.0",
                "\u0661.0",
            ),
            "args": (None, [], "x", 7, {"self": 1, "context": 2, "document": 3}),
            "namespace": (7, [], "n" * 100_000),
            "_unique_id": (7, [], {}, "u" * 1000, "\ud800"),
        }.items()
        for value in values
    },
}


ENVELOPES: dict[str, str | bytes] = {
    "empty": b"",
    "bytes": b"\xff\xfe\x00" * 100,
    "not json": "not json",
    "list": "[]",
    "text": '"text"',
    "deep": "[" * 200_000,
    "without": json.dumps(request()),
    "version 1": json.dumps({"oslo.version": "1.0", "oslo.message": "{}"}),
    "version 2.9": json.dumps({"oslo.version": "2.9", "oslo.message": "{}"}),
    "huge version": json.dumps({"oslo.version": "9" * 200_000, "oslo.message": "{}"}),
    "version is a number": json.dumps({"oslo.version": 2.0, "oslo.message": "{}"}),
    "message is an object": json.dumps({"oslo.version": "2.0", "oslo.message": request()}),
    "message is null": json.dumps({"oslo.version": "2.0", "oslo.message": None}),
    "more": envelope("{}", more=1),
    "types of kombu": envelope("{}", x={"__type__": "decimal", "__value__": "1e999999999"}),
    "unknown type": envelope("{}", x={"__type__": "nonsense", "__value__": 1}),
    "bad utf-8": b'{"oslo.version": "2.0", "oslo.message": "\xff\xfe"}',
}


def raw_property(flag: int, value: bytes) -> bytes:
    return flag.to_bytes(2) + value


def table(*items: bytes) -> bytes:
    whole = b"".join(items)
    return raw_property(0x2000, len(whole).to_bytes(4) + whole)


def nested_table(depth: int) -> bytes:
    inner = b""
    for _ in range(depth):
        inner = b"\1kF" + len(inner).to_bytes(4) + inner
    return inner


PROPERTIES: dict[str, dict[str, Any] | bytes] = {
    "none": {},
    "pickle": {"content_type": "application/x-python-serialize", "content_encoding": "binary"},
    "yaml": {"content_type": "application/x-yaml", "content_encoding": "utf-8"},
    "msgpack": {"content_type": "application/x-msgpack", "content_encoding": "binary"},
    "text": {"content_type": "text/plain", "content_encoding": "utf-8"},
    "nonsense": {"content_type": "x" * 255, "content_encoding": "utf-8"},
    "priority": {**JSON, "priority": 255, "delivery_mode": 2},
    "content type is not utf-8": raw_property(0x8000, b"\2\xff\xfe"),
    "message id is not utf-8": raw_property(0x0080, b"\2\xff\xfe"),
    "timestamp": raw_property(0x0040, b"\xff" * 8),
    "timestamp in a table": table(b"\1kT" + b"\xff" * 8),
    "key of a table is not utf-8": table(b"\2\xff\xfeV"),
    "deep table": table(nested_table(3000)),
}
