"""What is private in oslo.messaging does what this package uses it for, on kombu's own broker."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from queue import Queue
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging.rpc.server import RPCServer

from rtagent.embedded import SystemClock
from rtagent.ports import NullReporter
from rtagent.rpc import driver
from rtagent.rpc.context import REPLY_QUEUE
from rtagent.rpc.incoming import LateReplies, Workers
from rtagent.rpc.transport import get_notification_transport, get_transport

URL = "kombu+memory://"
TARGET = oslo_messaging.Target(topic="t", server="s")


class Endpoint:
    def reply_queue(self, context: dict[str, Any]) -> Any:
        return context[REPLY_QUEUE]


class Received:
    """A listener of notifications. :ivar payloads: that have arrived."""

    def __init__(self) -> None:
        self.payloads = Queue[Any]()

    def info(self, _context: Any, _publisher: str, _type: str, payload: Any, _: Any) -> None:
        self.payloads.put(payload)


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    made = cfg.ConfigOpts()
    made([], project="rtagent", default_config_files=[])
    return made


@pytest.fixture
def transport(conf: cfg.ConfigOpts) -> Iterator[oslo_messaging.RPCTransport]:
    made = get_transport(conf, URL)
    yield made
    made.cleanup()


@pytest.fixture
def served(transport: oslo_messaging.RPCTransport) -> Iterator[list[Workers]]:
    """Serve an `Endpoint`, and return the executors of its server."""
    made: list[Workers] = []

    def workers(max_workers: int) -> Workers:
        replies = LateReplies(SystemClock(), NullReporter())
        made.append(Workers(max_workers, replies, NullReporter()))
        return made[-1]

    dispatcher = oslo_messaging.RPCDispatcher(
        [Endpoint()], oslo_messaging.NoOpSerializer(), oslo_messaging.DefaultRPCAccessPolicy
    )
    server = RPCServer(transport, TARGET, dispatcher)
    driver.use_executor(server, workers)
    server.start()
    yield made
    server.stop()
    server.wait()


def asked(transport: oslo_messaging.RPCTransport) -> Any:
    return oslo_messaging.get_rpc_client(transport, TARGET, timeout=30).call({}, "reply_queue")


def test_the_options_of_metrics_and_tracing_are_registered():
    conf = cfg.ConfigOpts()
    driver.register_options(conf)
    for group in ("oslo_messaging_metrics", "oslo_messaging_tracing"):
        assert dict(conf[group]) == dict(cfg.CONF[group])
    assert conf.oslo_messaging_metrics.metrics_enabled is False


def test_a_reply_of_the_executor_goes_to_the_queue_of_the_name_that_was_made(transport, served):
    driver.name_reply_queue(transport, lambda: "reply_of_somebody")
    assert asked(transport) == "reply_of_somebody"
    assert len(served) == 1, "the server has the executor that was made"


def test_a_message_goes_to_a_queue(conf):
    get_notification_transport(conf)  # registers the options
    conf.set_override("transport_url", URL)
    transport, received = get_notification_transport(conf), Received()
    listener = oslo_messaging.get_notification_listener(
        transport, [oslo_messaging.Target(topic="events")], [received], executor="threading"
    )
    listener.start()
    message = {"publisher_id": "p", "event_type": "t", "priority": "INFO", "payload": "one"}
    fields = {"message_id": "m", "timestamp": "now"}
    queue = oslo_messaging.Target(topic="events.info")
    driver.send_to_queue(transport, queue, {**message, **fields}, enveloped=True, retry=0)
    assert received.payloads.get(timeout=30) == "one"
    other = {**message, **fields, "payload": "two"}
    driver.send_notification(transport, queue, other, version=2.0, retry=0)
    assert received.payloads.get(timeout=30) == "two"
    listener.stop()
    listener.wait()
    transport.cleanup()


def test_the_table_has_each_private_name():
    names = set[str]()
    for node in ast.walk(ast.parse(inspect.getsource(driver))):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(node.module.split("."))
    assert {name for name in names if name[0] == "_"} - {"__future__"} == driver.PRIVATE.keys()
