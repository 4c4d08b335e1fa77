"""Messages of any content neither delay a claim nor cost the agent threads and memory."""

import bz2
import json
import logging
import lzma
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import amqp
import pytest

from rtagent.rpc.client import AgentAPI
from tests.functional.rpc.conftest import Station
from tests.functional.rpc.hostile import ENVELOPES, PROPERTIES, TEXTS
from tests.functional.rpc.raw_messages import JSON, RawSender, envelope, reply_to, request
from tests.servers import RabbitMQ
from tests.servers.daemon import wait_until
from tests.support.hosts import uid

#: Seconds that a claim may take longer than one on an idle agent.
DELAY = 2.0
#: Seconds for a machine that stands still for a moment. What is tested takes 20 and more.
ROOM = 14.0
#: The number of messages of each kind.
MANY = 70
#: Threads that the agent may start in addition: its pool, and one for each pooled connection.
THREADS = 64 + 30 + 10
MB = 2**20
GONE = "undeliverable"
#: Bytes of a text that is small when it is compressed.
BOMB = 100 * MB


def claim_seconds(station: Station, api: AgentAPI) -> float:
    """The duration of one claim, which is then released."""
    instance = {"uuid": uid(), "flavor": {"vcpus": 1, "memory_mb": 128}}
    began = time.monotonic()
    claim = api.instance_claim(station.context, instance)
    taken = time.monotonic() - began
    api.release_claim(station.context, claim["uuid"])
    return taken


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def nested(depth: int) -> list[Any]:
    document: list[Any] = []
    for _ in range(depth):
        document = [document]
    return document


def count(station: Station, name: str, **labels: str) -> float:
    """The value of one of the agent's counters."""
    return station.agent.sample(name, **labels) or 0


@pytest.fixture(scope="module")
def attacked(rabbitmq_server: RabbitMQ) -> Iterator[Station]:
    """A station for all tests of this module."""
    station = Station(rabbitmq_server.start().transport_url).start()
    yield station
    station.close()


@pytest.fixture(scope="module")
def api(attacked: Station) -> AgentAPI:
    """A client that makes each call once."""
    return attacked.client(timeout=60, attempts=1)


@pytest.fixture(scope="module")
def idle_seconds(attacked: Station, api: AgentAPI) -> float:
    """The duration of a claim on the idle agent."""
    return max(claim_seconds(attacked, api) for _ in range(3))


@pytest.fixture
def errors(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """The sources of the tracebacks that are logged during a test."""
    found: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[0]:
                found.append(f"{record.name}: {record.getMessage()[:200]}: {record.exc_info[1]!r}")

    collector = Collector()
    logging.getLogger().addHandler(collector)
    yield found
    logging.getLogger().removeHandler(collector)


@pytest.fixture
def sender(attacked: Station, rabbitmq_server: RabbitMQ) -> Iterator[RawSender]:
    with RawSender(rabbitmq_server.port, attacked.host) as sender:
        yield sender


@pytest.fixture
def prompt(attacked: Station, api: AgentAPI, idle_seconds: float) -> Callable[[], None]:
    """Asserts that a claim takes about as long as on the idle agent."""

    def check() -> None:
        assert claim_seconds(attacked, api) < idle_seconds + DELAY + ROOM

    return check


def test_replies_to_missing_queues_hold_no_threads(
    attacked: Station, sender: RawSender, prompt: Callable[[], None]
):
    for _ in range(3 * MANY):
        sender.request(**reply_to(f"reply_{uid()}"))
    prompt()
    wait_until(lambda: count(attacked, "rpc_given_up_total", label=GONE) > 0)


def test_a_reply_reaches_a_caller_that_reconnects(
    rabbitmq: RabbitMQ, station_on: Callable[..., Station]
):
    station, queue = station_on(rabbitmq.transport_url), f"reply_{uid()}"
    station.start()
    with RawSender(rabbitmq.port, station.host) as sender:
        sender.request(**reply_to(queue))
        time.sleep(1)
        channel = sender.channel
        channel.queue_declare(queue, auto_delete=False)
        wait_until(lambda: channel.basic_get(queue, no_ack=True) is not None)


def test_replies_to_queues_that_cannot_be_are_not_sent(
    sender: RawSender, prompt: Callable[[], None]
):
    for queue in (5, None, [], {"a": 1}, "", "q" * 300, "a b", "\0", "\u65e5", True):
        for _ in range(5):
            sender.request(**reply_to("x", _reply_q=queue))
            sender.request(**reply_to("x", _msg_id=queue))
    sender.request(**reply_to("amq.rabbitmq.reply-to"))
    sender.request(**reply_to(sender.queue))  # the agent gets its own reply as a request
    sender.request(**reply_to("rtagent"))
    prompt()


def test_replies_that_the_broker_rejects_are_given_up(
    attacked: Station, sender: RawSender, prompt: Callable[[], None], errors: list[str]
):
    before = count(attacked, "rpc_given_up_total", label=GONE)
    queue, full = f"reply_{uid()}", {"x-max-length": 1, "x-overflow": "reject-publish"}
    sender.channel.queue_declare(queue, auto_delete=False, arguments=full)
    sender.channel.basic_publish(amqp.Message("full"), routing_key=queue)
    for _ in range(MANY):
        sender.request(**reply_to(queue, _timeout=2))
    prompt()
    wait_until(lambda: count(attacked, "rpc_given_up_total", label=GONE) >= before + MANY)
    assert errors == []


def test_a_context_that_oslo_messaging_cannot_pass_on(
    attacked: Station, sender: RawSender, prompt: Callable[[], None]
):
    deep = nested(400)
    for _ in range(MANY):
        sender.request(_context_self=1)
        sender.request(_context_deep=deep)
    prompt()
    sender.request(**{f"_context_{name}": nested(50) for name in ("user", "roles", "cls", "x")})
    sender.request(**{f"_context_{n}": n for n in range(1000)})
    sender.request(**{"_context_": 1, "_context_a b": 2, "_context_" + "k" * 1000: 3})
    prompt()


def bomb(compressor: Any) -> bytes:
    """A compressed text of `BOMB` bytes, made in little memory."""
    parts = [compressor.compress(b"[" * MB) for _ in range(BOMB // MB)]
    return b"".join((*parts, compressor.flush()))


@pytest.mark.parametrize(
    ("name", "compressor"),
    [
        ("gzip", zlib.compressobj),
        ("bzip2", bz2.BZ2Compressor),
        ("xz", lambda: lzma.LZMACompressor(preset=0)),
    ],
)
def test_compressed_messages_are_not_decompressed(
    sender: RawSender, prompt: Callable[[], None], name: str, compressor: Callable[[], Any]
):
    packed = bomb(compressor())
    before = peak_memory()
    for given in (name, "zlib", ["gzip"], "nonsense"):
        sender.send(packed, {**JSON, "application_headers": {"compression": given}})
    prompt()
    assert peak_memory() - before < BOMB / 2


def test_content_encodings_are_not_decoded(sender: RawSender, prompt: Callable[[], None]):
    packed, slow = bomb(zlib.compressobj()), b"-" * 100 + b"a" * 200_000
    before = peak_memory()
    for content_type in ("text/plain", "application/json", "application/data", None):
        for encoding in ("zlib", "zip", "bz2", "punycode", "idna", "utf-16", "nonsense"):
            properties = {"content_type": content_type, "content_encoding": encoding}
            given = {name: value for name, value in properties.items() if value}
            sender.send(packed, given)
            sender.send(slow, given)
    prompt()
    assert peak_memory() - before < BOMB / 2


def test_large_bodies_are_dropped_as_they_arrive(sender: RawSender, prompt: Callable[[], None]):
    body = b"x" * (60 * MB)  # in the memory of this process, like what the agent receives
    before = peak_memory()
    for _ in range(3):
        sender.send(body)
    prompt()
    assert peak_memory() - before < 30 * MB


def test_call_monitors_hold_no_threads(
    attacked: Station, sender: RawSender, prompt: Callable[[], None], rabbitmq_server: RabbitMQ
):
    before = threading.active_count()
    with amqp.Connection(f"127.0.0.1:{rabbitmq_server.port}") as connection:
        queue = f"reply_{uid()}"
        connection.channel().queue_declare(queue, auto_delete=False)
        for _ in range(MANY):
            for fields in (
                {"method": "no_such_method"},
                {"version": "1.99"},
                {"version": "7.0"},
                {"namespace": "elsewhere"},
                {"method": "target"},
            ):
                sender.request(**{**fields, **reply_to(queue, _timeout=10)})
        prompt()
    assert threading.active_count() <= before + THREADS


@pytest.mark.parametrize("timeout", [2, 1e308, 10**400, -1, 0, "7", "x", [], {}, True, 1e-9])
def test_odd_call_monitors(
    attacked: Station, sender: RawSender, prompt: Callable[[], None], timeout: object
):
    before = threading.active_count()
    for method in ("ping", "no_such_method"):
        for _ in range(MANY):
            sender.request(method=method, **reply_to(f"reply_{uid()}", _timeout=timeout))
    prompt()
    assert threading.active_count() <= before + THREADS


def test_documents_with_many_mistakes_are_refused_at_once(
    attacked: Station, sender: RawSender, prompt: Callable[[], None]
):
    specs = {f"k{n}": 7 for n in range(9000)}
    instance = {"uuid": uid(), "flavor": {"vcpus": 1, "memory_mb": 1, "extra_specs": specs}}
    args = {"operation_id": uid(), "instance": instance}
    for _ in range(MANY):
        sender.request(method="instance_claim", args=args)
    prompt()


def test_messages_of_any_text_are_refused_or_served(
    attacked: Station, sender: RawSender, prompt: Callable[[], None], errors: list[str]
):
    for body in (*map(envelope, TEXTS.values()), *ENVELOPES.values()):
        for _ in range(3):
            sender.send(body)
    prompt()
    assert not attacked.agent.tracker.snapshot().claims
    assert errors == []


def test_large_messages_cost_little(sender: RawSender, prompt: Callable[[], None]):
    numbers = f"[{','.join(['7' * 4300] * 200)}]"
    for _ in range(MANY):
        sender.request(args={"node": "x" * 1_000_000})
        sender.send(envelope(f'{{"method": "ping", "args": {{"node": {numbers}}}}}'))
    prompt()


def test_properties_of_any_kind_are_refused_or_ignored(
    attacked: Station, sender: RawSender, prompt: Callable[[], None], errors: list[str]
):
    for properties in PROPERTIES.values():
        for _ in range(5):
            sender.send(envelope(json.dumps(request())), properties)
    prompt()
    assert errors == []


def test_a_routing_key_that_is_not_utf_8(
    attacked: Station, sender: RawSender, prompt: Callable[[], None], errors: list[str]
):
    for _ in range(5):
        sender.send(
            envelope(json.dumps(request())), exchange="rtagent_fanout", routing_key=b"\xff\xfe"
        )
    prompt()
    assert errors == []


def test_messages_that_avoid_the_topic_permissions_are_refused(
    attacked: Station, sender: RawSender, errors: list[str]
):
    """Each way needs no permission but one that every server of RPC has."""
    refused = partial(count, attacked, "rpc_refused_total", reason="exchange")
    body, key = envelope(json.dumps(request())), f"other.{uid()}"
    before = refused()
    sender.send(body, exchange="")
    sender.send(body, {**JSON, "application_headers": {"CC": [sender.queue]}}, routing_key=key)
    letters = {
        "x-dead-letter-exchange": "openstack",
        "x-dead-letter-routing-key": sender.queue,
        "x-message-ttl": 0,
    }
    sender.channel.queue_declare(key, auto_delete=False, exclusive=True, arguments=letters)
    sender.send(body, exchange="", routing_key=key)
    wait_until(lambda: refused() == before + 3)
    assert errors == []


def test_a_message_that_is_sent_again_leaves_one_line(
    attacked: Station, sender: RawSender, prompt: Callable[[], None], errors: list[str]
):
    body = envelope(json.dumps(request()))
    for _ in range(MANY):
        sender.send(body)
    prompt()
    duplicates = partial(count, attacked, "rpc_refused_total", reason="duplicate")
    wait_until(lambda: duplicates() >= MANY - 1)
    assert errors == []


def test_a_message_that_is_sent_again_after_many_others_is_not_served_again(
    attacked: Station, sender: RawSender, prompt: Callable[[], None]
):
    duplicates = partial(count, attacked, "rpc_refused_total", reason="duplicate")
    before, body = duplicates(), envelope(json.dumps(request()))
    sender.send(body)
    for _ in range(200):
        sender.request()
    sender.send(body)
    prompt()
    wait_until(lambda: duplicates() == before + 1)


def test_refused_messages_are_one_line_and_a_counter(
    attacked: Station, sender: RawSender, prompt: Callable[[], None]
):
    counted = count(attacked, "rpc_refused_total", reason="envelope")
    repeated = count(attacked, "repeated_total", level="warning")
    for _ in range(MANY):
        sender.send("not json")
    prompt()
    refused = partial(count, attacked, "rpc_refused_total", reason="envelope")
    wait_until(lambda: refused() >= counted + MANY)
    assert refused() == counted + MANY
    warned = partial(count, attacked, "repeated_total", level="warning")
    wait_until(lambda: warned() >= repeated + MANY - 1)


def test_all_kinds_at_once(
    attacked: Station, sender: RawSender, prompt: Callable[[], None], errors: list[str]
):
    before = threading.active_count()
    for _ in range(5):
        for body in (*map(envelope, TEXTS.values()), *ENVELOPES.values()):
            sender.send(body)
        for properties in PROPERTIES.values():
            sender.send(envelope(json.dumps(request())), properties)
        sender.request(_context_self=1)
        for method in ("ping", "no_such_method"):
            sender.request(method=method, **reply_to(f"reply_{uid()}", _timeout=10))
        prompt()
    assert errors == []
    assert threading.active_count() <= before + THREADS
