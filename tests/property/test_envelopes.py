"""oslo.messaging processes every message that the rules for messages accept."""

import json
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
from hypothesis import given
from hypothesis import strategies as st
from kombu.utils.json import loads
from oslo_context.context import RequestContext
from oslo_messaging._drivers.amqp import unpack_context
from oslo_messaging._drivers.common import deserialize_msg

from rtagent.ports import NullReporter
from rtagent.rpc.context import ContextSerializer, actor, request_id
from rtagent.rpc.envelope import RefusedMessage, check
from rtagent.rpc.incoming import CallMonitor
from tests.support.hosts import ManualClock

JSON = {"content_type": "application/json"}
NAMES = (
    *("method", "args", "version", "namespace", "_msg_id", "_reply_q", "_unique_id", "_timeout"),
    *(f"_context_{name}" for name in RequestContext(overwrite=False).to_dict()),
    *("_context_self", "_context_cls", "_context_values", "_context_msg_id", "_context_conf"),
)
TEXTS = st.text(max_size=20) | st.sampled_from(["ping", "1.0", "\ud800", "x" * 300, "1.0\n"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)
MESSAGES = st.dictionaries(st.sampled_from(NAMES) | TEXTS, VALUES, max_size=6)


def refused(body: bytes) -> bool:
    try:
        check(body, JSON)
    except RefusedMessage:
        return True
    return False


@given(odd=MESSAGES, asks=st.booleans())
def test_an_accepted_message_is_processed_without_an_error(odd: dict[str, Any], asks: bool):
    plain: dict[str, Any] = {"method": "ping", "version": "1.0", "args": {}}
    reply = {"_msg_id": "m", "_reply_q": "q"} if asks else {}
    body = json.dumps(
        {"oslo.version": "2.0", "oslo.message": json.dumps(plain | reply | odd)}
    ).encode()
    if refused(body):
        return
    message = deserialize_msg(loads(body))
    arrived = unpack_context(message)
    fields = arrived.to_dict()
    assert (arrived.msg_id is None) == (arrived.reply_q is None)
    assert all(len(part) <= 5 for part in message.get("version", "1.0").split("."))
    assert message["method"].isascii() and message["method"].isidentifier()
    assert isinstance(message.get("args", {}), dict)
    context = ContextSerializer().deserialize_context(fields)
    assert actor(context).isprintable() and request_id(context).isprintable()
    with CallMonitor(ManualClock(), NullReporter()).watch(object(), fields["client_timeout"]):
        pass


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(body: bytes):
    assert refused(body)
