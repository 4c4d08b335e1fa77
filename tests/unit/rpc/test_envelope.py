"""The rules for messages, before they are parsed."""

import json
from typing import Any

import pytest

from rtagent.rpc.amqp_frames import OVERSIZED, UNDECODABLE
from rtagent.rpc.envelope import (
    MAX_BODY,
    MAX_CONTEXT_FIELDS,
    MAX_REPORT,
    MAX_VALUES,
    REASONS,
    RefusedMessage,
    check,
    check_delivery,
)

JSON = {"content_type": "application/json"}


def body(text: str | None = None, **fields: Any) -> bytes:
    """A request in an envelope."""
    request = {"method": "ping", "version": "1.0", "args": {}, "_unique_id": "u", **fields}
    message = json.dumps(request) if text is None else text
    return json.dumps({"oslo.version": "2.0", "oslo.message": message}).encode()


def reason(body: bytes, properties: dict[str, Any] = JSON) -> str:
    with pytest.raises(RefusedMessage) as refused:
        check(body, properties)
    assert str(refused.value) == REASONS[refused.value.reason]
    return refused.value.reason


def test_fields_of_later_releases_are_accepted():
    fields = {"_context_new": {"a": [1]}, "_new": 1, "version": "7.12", "method": "new_method"}
    assert check(body(**fields), JSON) == "u"
    assert check(body(**{"_context_trace-parent": 1, "_context_": 2}), JSON) == "u"
    assert check(body(_msg_id="m", _reply_q="q", _timeout=None, namespace=None), JSON) == "u"


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({}, "content_type"),
        ({"content_type": "application/x-python-serialize"}, "content_type"),
        ({"content_type": OVERSIZED}, "size"),
        ({"content_type": UNDECODABLE}, "properties"),
        ({**JSON, "application_headers": {"compression": "gzip"}}, "compression"),
    ],
)
def test_other_kinds_of_messages_are_refused(properties: dict[str, Any], why: str):
    assert reason(body(), properties) == why


QUEUE, FANOUT = "rtagent.cn1", "rtagent_fanout"
DEAD = {"application_headers": {"x-death": [{"queue": "mine"}]}}


@pytest.mark.parametrize(
    ("exchange", "routing_key", "fanout", "properties"),
    [
        ("openstack", QUEUE, False, JSON),
        ("nova", QUEUE, False, {**JSON, "application_headers": {"priority": 0}}),
        (FANOUT, "", True, JSON),
        (FANOUT, "\ufffd", True, JSON),
    ],
)
def test_messages_of_the_topics_exchanges_are_accepted(
    exchange: str, routing_key: str, fanout: bool, properties: dict[str, Any]
):
    delivery = {"exchange": exchange, "routing_key": routing_key}
    check_delivery(QUEUE, delivery, properties, exchange, fanout=fanout)


@pytest.mark.parametrize(
    ("exchange", "routing_key", "bound_to", "properties"),
    [
        ("", QUEUE, "openstack", JSON),
        ("", QUEUE, "", JSON),
        ("openstack", "rtagent.cn2", "openstack", JSON),
        ("openstack", "", "openstack", JSON),
        ("openstack", QUEUE, "openstack", DEAD),
        ("rtagent.cn2", QUEUE, "openstack", JSON),
        ("", "rtagent_fanout_1", FANOUT, JSON),
        ("openstack", QUEUE, FANOUT, JSON),
        (FANOUT, "", FANOUT, DEAD),
    ],
)
def test_messages_that_no_topic_permission_has_judged_are_refused(
    exchange: str, routing_key: str, bound_to: str, properties: dict[str, Any]
):
    delivery = {"exchange": exchange, "routing_key": routing_key}
    with pytest.raises(RefusedMessage, match="may write") as refused:
        check_delivery(QUEUE, delivery, properties, bound_to, fanout=bound_to == FANOUT)
    assert refused.value.reason == "exchange"


def test_large_messages_are_refused():
    assert check(body(args={"a": "x" * (MAX_BODY - 1000)}), JSON)
    assert reason(body(args={"a": "x" * MAX_BODY})) == "size"
    assert check(body(args={"a": "x" * MAX_BODY}), JSON, MAX_REPORT)
    with pytest.raises(RefusedMessage, match=str(MAX_REPORT)):
        check(body(args={"a": "x" * MAX_REPORT}), JSON, MAX_REPORT)
    assert check(body(args={"a": [0] * (MAX_VALUES - 100)}), JSON)
    assert reason(body(args={"a": [0] * MAX_VALUES})) == "values"


@pytest.mark.parametrize("depth", [700, 5000, 100_000])
def test_deep_messages_are_refused(depth: int):
    deep = body('{"method": "ping", "args": ' + "[" * depth + "]" * depth + "}")
    # The parsers of some releases of Python stop at the deeper ones.
    assert reason(deep) in ({"values"} if depth == 700 else {"values", "envelope"})


@pytest.mark.parametrize("digits", ["7" * 501, f"0.{'7' * 500}", f"1{'0' * 499}e1"])
def test_long_numbers_are_refused(digits: str):
    message = '{"method": "ping", "args": {"a": %s}}'
    assert check(body(message % digits[:400]), JSON) is None
    assert reason(body(message % digits)) == "envelope"


@pytest.mark.parametrize("text", ["", "7", "[]", "null", "{", "\x00", '{"a": ' + "7" * 5000 + "}"])
def test_text_that_is_no_object_is_refused(text: str):
    assert reason(body(text)) == "envelope"


@pytest.mark.parametrize(
    "envelope", [b"", b"{}", b"[]", b"\xff", b'{"oslo.version": "1.0", "oslo.message": "{}"}']
)
def test_other_envelopes_are_refused(envelope: bytes):
    assert reason(envelope) == "envelope"


@pytest.mark.parametrize(
    "fields",
    [
        {"method": None},
        {"method": "a b"},
        {"method": "m" * 101},
        {"method": "ping\n"},
        {"version": "1"},
        {"version": 1.0},
        {"args": None},
        {"args": []},
        {"namespace": 7},
        {"_unique_id": []},
        {"_timeout": "7"},
        {"_msg_id": "m"},
        {"_reply_q": "q"},
        {"_msg_id": "m", "_reply_q": "q" * 256},
        {"_msg_id": "m", "_reply_q": "a b"},
        {"_msg_id": "m", "_reply_q": "\ud800"},
        {"\ud800": 1, "method": 7},
    ],
)
def test_fields_that_oslo_messaging_cannot_process_are_refused(fields: dict[str, Any]):
    assert reason(body(**fields)) == "request"


@pytest.mark.parametrize(
    "context",
    [
        {"self": 1},
        {"k" * 101: 1},
        {f"k{n}": n for n in range(MAX_CONTEXT_FIELDS + 1)},
        {"deep": [[[[[[[[[[]]]]]]]]]]},
    ],
)
def test_contexts_that_oslo_messaging_cannot_process_are_refused(context: dict[str, Any]):
    fields = {f"_context_{name}": value for name, value in context.items()}
    assert reason(body(**fields)) == "context"
