"""The read API's server, over real sockets."""

import contextlib
import http.client
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rtagent.api.address import TcpAddress, UnixAddress
from rtagent.api.client import ReadClient
from rtagent.api.listener import THREADS, WAITING
from rtagent.api.server import ReadAPI
from rtagent.api.sources import Sources
from rtagent.errors import (
    AgentUnreachable,
    ClaimNotFound,
    ConfigError,
    InvalidRequest,
    NodeNotFound,
)
from rtagent.model.health import Check, Status
from tests.unit.api.states import NOW, claimed, empty, populated, sources, uuid

PATIENCE = 0.5


@contextlib.contextmanager
def serving(path: Path, agent: Sources | None = None) -> Iterator[ReadAPI]:
    api = ReadAPI(UnixAddress(str(path)), agent or sources(), patience=PATIENCE)
    api.start()
    try:
        yield api
    finally:
        api.stop()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rtagent.sock"


@pytest.fixture
def api(path: Path) -> Iterator[ReadAPI]:
    with serving(path) as server:
        yield server


def connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(30)
    connection.connect(str(path))
    return connection


def exchange(path: Path, request: bytes) -> bytes:
    with connect(path) as connection:
        connection.sendall(request)
        return connection.makefile("rb").read()


def parsed(reply: bytes) -> tuple[int, dict[str, str], dict]:
    head, _, body = reply.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, json.loads(body) if body else {}


def test_the_client_gets_documents(api, path):
    client = ReadClient(UnixAddress(str(path)))
    assert client.get("nodes")["nodes"][0]["hypervisor_hostname"] == "kvm-7.example"
    assert [c["uuid"] for c in client.get("claims", state="active")["claims"]] == [uuid(1)]
    assert len(client.get("claims", state=None)["claims"]) == 2
    assert client.get("nodes", "kvm-7.example")["node"]["claims"] == 2


def test_the_client_raises_what_the_agent_told(api, path):
    client = ReadClient(UnixAddress(str(path)))
    with pytest.raises(ClaimNotFound, match=uuid(9)):
        client.get("claims", uuid(9))
    with pytest.raises(NodeNotFound, match="a/b"):
        client.get("nodes", "a/b")
    with pytest.raises(InvalidRequest, match="not one of active, building"):
        client.get("claims", state="gone")


def test_the_client_gets_the_health_of_an_agent_that_is_not_well(path):
    checks = (Check(part="store", status=Status.FAIL, time=NOW, output="down"),)
    with serving(path, sources(checks=checks)):
        assert ReadClient(UnixAddress(str(path))).get("health")["status"] == "fail"


def test_without_an_agent_the_client_names_socket_and_remedy(path):
    with pytest.raises(AgentUnreachable, match=rf"{path} .*rtagentd running.*--offline"):
        ReadClient(UnixAddress(str(path))).get("nodes")


def test_something_else_that_listens_is_no_agent(path):
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(AgentUnreachable):
            ReadClient(UnixAddress(str(path)), timeout=0.1).get("nodes")


def test_only_the_agents_user_and_group_may_connect(api, path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert os.listdir(path.parent) == [path.name]


def test_a_head_has_no_body(api, path):
    whole = exchange(path, b"GET /nodes HTTP/1.0\r\n\r\n")
    head = exchange(path, b"HEAD /nodes HTTP/1.0\r\n\r\n")
    assert head.endswith(b"\r\n\r\n")
    lengths = [parsed(reply)[1]["Content-Length"] for reply in (head, whole)]
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get"])
def test_only_reading_is_allowed(api, path, method):
    body = b"x" * 100_000
    head = f"{method} /claims HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    status, headers, document = parsed(exchange(path, head.encode() + body))
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert document["error"] == "MethodNotAllowed"


@pytest.mark.parametrize(
    ("garbage", "status"),
    [
        (b"\x00\xff\xfe\r\n\r\n", 400),
        (b"GET /nodes HTTP/9.9.9\r\n\r\n", 400),
        (b"GET /nodes HTTP/2.0\r\n\r\n", 505),
        (b"GET  HTTP/1.0\r\n\r\n", 404),
        (b"one two three four\r\n\r\n", 400),
        (b"GET /nodes HTTP/1.0\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"x" * 60_000 + b" HTTP/1.0\r\n\r\n", 431),
        (b"GET /nodes HTTP/1.0\r\nno colon\r\n\r\n", 200),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400),
    ],
)
def test_garbage_is_answered_in_json_and_survived(api, path, garbage, status):
    code, headers, document = parsed(exchange(path, garbage))
    assert (code, headers["Content-Type"]) == (status, "application/json")
    assert status == 200 or document["message"]
    assert ReadClient(UnixAddress(str(path))).get("nodes")


@pytest.mark.parametrize("beginning", [b"", b"\r\n\r\n", b"GET /nodes HTT"])
def test_a_client_that_goes_early_is_survived(api, path, beginning):
    with connect(path) as connection:
        connection.sendall(beginning)
    assert ReadClient(UnixAddress(str(path))).get("nodes")


def test_slow_clients_are_dropped_however_busy_they_look(api, path):
    """They take every thread; each byte is in time, the whole head is not."""
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(path)) for _ in range(THREADS)]
        dropped = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not dropped.wait(0.02):
                    for connection in slow:
                        connection.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert ReadClient(UnixAddress(str(path))).get("nodes")
        finally:
            dropped.set()
            thread.join()


def test_a_crowd_beyond_the_places_is_turned_away_at_once(path):
    """The agent's threads and memory are bounded, whoever connects."""
    api = ReadAPI(UnixAddress(str(path)), sources(), patience=60)
    api.start()
    with contextlib.ExitStack() as stack:
        stack.callback(api.stop)
        for _ in range(THREADS + WAITING):
            stack.enter_context(connect(path))
        with connect(path) as last:
            assert last.recv(1) == b""


def test_stopping_does_not_wait_for_a_client_that_asks_nothing(path):
    api = ReadAPI(UnixAddress(str(path)), sources(), patience=60)
    api.start()
    with connect(path):
        ReadClient(UnixAddress(str(path))).get("nodes")  # so the one before it has been accepted
        begun = time.monotonic()
        api.stop()
        assert time.monotonic() - begun < 30
    assert not path.exists()
    api.stop()


def test_it_starts_again_at_the_same_address(path):
    for _ in range(2):
        with serving(path):
            assert ReadClient(UnixAddress(str(path))).get("nodes")


def test_a_socket_that_was_left_behind_is_replaced(path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with serving(path):
        assert ReadClient(UnixAddress(str(path))).get("nodes")


def test_a_socket_on_which_somebody_listens_is_left_alone(api, path):
    with pytest.raises(ConfigError, match="another process listens there"):
        ReadAPI(UnixAddress(str(path)), sources()).start()
    assert ReadClient(UnixAddress(str(path))).get("nodes")


def test_a_file_that_is_no_socket_is_left_alone(path):
    path.write_text("precious")
    with pytest.raises(ConfigError, match="not a socket"):
        ReadAPI(UnixAddress(str(path)), sources()).start()
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "rule"),
    [("missing/rtagent.sock", "cannot listen there: No such file"), ("x" * 120, "at most 107")],
)
def test_a_path_that_cannot_be_had_is_told(tmp_path, name, rule):
    with pytest.raises(ConfigError, match=rf"\[api\] address = .*{rule}"):
        ReadAPI(UnixAddress(str(tmp_path / name)), sources()).start()


def test_stopping_leaves_another_ones_socket_in_its_place(path):
    with serving(path):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
    assert path.exists()


def test_a_loopback_port_serves_metrics():
    api = ReadAPI(TcpAddress(0), sources())
    api.start()
    try:
        assert isinstance(api.address, TcpAddress)
        connection = http.client.HTTPConnection("127.0.0.1", api.address.port, timeout=30)
        connection.request("GET", "/metrics")
        assert b"rtagent_revision" in connection.getresponse().read()
        connection.close()
        assert ReadClient(api.address).get("nodes")["nodes"]
        with pytest.raises(ConfigError, match=r"\[api\] address"):
            ReadAPI(api.address, sources()).start()
    finally:
        api.stop()


def test_many_clients_at_once_each_see_one_moment(path):
    """Revision and content are of the same snapshot while the state moves."""
    states = [empty()]
    for number in range(1, 6):
        states.append(claimed(states[-1], number))
    turn = iter(states * 20)
    lock = threading.Lock()

    def snapshot():
        with lock:
            return next(turn)

    moving = Sources(
        snapshot=snapshot,
        stale=lambda: False,
        checks=tuple,
        held_back=lambda: None,
        registry=sources().registry,
    )
    seen = []
    with serving(path, moving):

        def ask() -> None:
            for _ in range(5):
                seen.append(ReadClient(UnixAddress(str(path))).get("claims"))

        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 60
    assert all(len(document["claims"]) == document["revision"] for document in seen)


def test_a_defect_in_a_view_is_told_and_survived(path):
    def broken():
        raise ZeroDivisionError("a defect")

    agent = sources(populated())
    with serving(path, msgspec.structs.replace(agent, checks=broken)):
        status, _, document = parsed(exchange(path, b"GET /health HTTP/1.0\r\n\r\n"))
        assert (status, document["error"]) == (500, "InternalServerError")
        assert ReadClient(UnixAddress(str(path))).get("nodes")
