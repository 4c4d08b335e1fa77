"""The read API over real sockets: protocol, limits, deadlines, start and stop."""

import contextlib
import http.client
import json
import os
import resource
import select
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from immutables import Map
from msgspec.structs import replace

from rtagent.api.address import TcpAddress, UnixAddress
from rtagent.api.client import ReadClient
from rtagent.api.routes import Sources
from rtagent.api.server import CONNECTIONS, MAX_BODY, THREADS, ReadAPI
from rtagent.errors import (
    AgentUnreachable,
    ClaimNotFound,
    ConfigError,
    InvalidRequest,
    NodeNotFound,
)
from rtagent.model.health import Check, Status
from rtagent.ports import Reporter
from tests.support.api_states import NOW, claimed, empty, sources, uuid
from tests.support.trackers import Reports

#: Seconds that the server gives a client; those of a test that waits for the end of it.
PATIENCE, SHORT = 60.0, 2.0


@contextlib.contextmanager
def serving(
    path: Path,
    agent: Sources | None = None,
    patience: float = PATIENCE,
    reporter: Reporter | None = None,
) -> Iterator[ReadAPI]:
    api = ReadAPI(UnixAddress(str(path)), agent or sources(), reporter, patience=patience)
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
    connection.settimeout(120)
    connection.connect(str(path))
    return connection


def exchange(path: Path, request: bytes) -> bytes:
    """The reply. A server that does not read all of the request may reset the connection then."""
    reply = b""
    with connect(path) as connection, contextlib.suppress(ConnectionResetError):
        connection.sendall(request)
        while received := connection.recv(65536):
            reply += received
    return reply


def parsed(reply: bytes) -> tuple[int, dict[str, str], dict]:
    head, _, body = reply.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, json.loads(body) if body else {}


# -- client and server -------------------------------------------------------------------------


def test_client_gets_documents(api, path):
    client = ReadClient(UnixAddress(str(path)))
    assert client.get("nodes")["nodes"][0]["hypervisor_hostname"] == "kvm-7.example"
    assert [c["uuid"] for c in client.get("claims", state="active")["claims"]] == [uuid(1)]
    assert len(client.get("claims", state=None)["claims"]) == 2
    assert client.get("nodes", "kvm-7.example")["node"]["claims"] == 2


def test_client_raises_the_error_of_the_reply(api, path):
    client = ReadClient(UnixAddress(str(path)))
    with pytest.raises(ClaimNotFound, match=uuid(9)):
        client.get("claims", uuid(9))
    with pytest.raises(NodeNotFound, match="a/b"):
        client.get("nodes", "a/b")
    with pytest.raises(InvalidRequest, match="not one of active, building"):
        client.get("claims", state="gone")


def test_client_gets_the_health_document_of_a_failed_agent(path):
    checks = (Check(part="store", status=Status.FAIL, time=NOW, output="down"),)
    with serving(path, sources(checks=checks)):
        assert ReadClient(UnixAddress(str(path))).get("health")["status"] == "fail"


def test_client_without_an_agent_names_socket_and_remedy(path):
    with pytest.raises(AgentUnreachable, match=rf"{path} .*rtagentd running.*--offline"):
        ReadClient(UnixAddress(str(path))).get("nodes")


def test_client_gives_up_on_a_server_that_does_not_reply(path):
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(AgentUnreachable):
            ReadClient(UnixAddress(str(path)), timeout=0.1).get("nodes")


# -- HTTP --------------------------------------------------------------------------------------


def test_replies_are_not_cached_and_name_the_server(api, path):
    _, headers, _ = parsed(exchange(path, b"GET /nodes HTTP/1.0\r\n\r\n"))
    assert headers["Cache-Control"] == "no-store"
    assert headers["Server"] == "rtagent"


def test_a_connection_serves_one_request(api, path):
    with connect(path) as connection:
        stream = connection.makefile("rwb")
        stream.write(b"GET /nodes HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        stream.flush()
        reply = stream.read()  # until the server closes the connection
    assert reply.count(b"HTTP/1.1 200") == 1
    assert b"Connection: close" in reply


@pytest.mark.parametrize("method", ["POST", "DELETE", "TRACE"])
def test_methods_that_write_are_not_allowed(api, path, method):
    body = b"x" * 100_000
    head = f"{method} /claims HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    request = head.encode().replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + body
    status, headers, document = parsed(exchange(path, request))
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert document["error"] == "MethodNotAllowed"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x00\xff\xfe\r\n\r\n", 400),
        (b"get /nodes HTTP/1.0\r\n\r\n", 400),
        (b"GET /nodes HTTP/9.9.9\r\n\r\n", 400),
        (b"GET  HTTP/1.0\r\n\r\n", 400),
        (b"one two three four\r\n\r\n", 400),
        (b"GET /nodes HTTP/1.0\r\nno colon\r\n\r\n", 400),
        (b"GET /nodes HTTP/1.0\r\nContent-Length: x\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /nodes HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET /nodes HTTP/1.0\r\n" + b"a: b\r\n" * 10_000 + b"\r\n", 431),
        (b"GET /" + b"x" * 60_000 + b" HTTP/1.0\r\n\r\n", 431),
        (f"POST /nodes HTTP/1.0\r\nContent-Length: {MAX_BODY}\r\n\r\n".encode(), 413),
    ],
)
def test_invalid_requests_get_a_json_error(api, path, request_, status):
    code, headers, document = parsed(exchange(path, request_))
    assert (code, headers["Content-Type"]) == (status, "application/json")
    assert set(document) == {"error", "message", "retriable"} and document["message"]
    assert ReadClient(UnixAddress(str(path))).get("nodes")


def test_a_body_beyond_the_limit_is_refused_while_it_is_sent(api, path):
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with connect(path) as connection:
        connection.sendall(b"POST /nodes HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(BrokenPipeError):
            for _ in range(2 * MAX_BODY // 0x10000):
                connection.sendall(chunk)
        assert connection.recv(20).startswith(b"HTTP/1.1 413")
    assert ReadClient(UnixAddress(str(path))).get("nodes")


@pytest.mark.parametrize("beginning", [b"", b"\r\n\r\n", b"GET /nodes HTT"])
def test_clients_that_disconnect_early_do_no_harm(api, path, beginning):
    with connect(path) as connection:
        connection.sendall(beginning)
    assert ReadClient(UnixAddress(str(path))).get("nodes")


# -- limits ------------------------------------------------------------------------------------


def test_a_request_that_is_sent_slowly_is_dropped_at_its_deadline(path):
    """Although each byte arrives in time; and meanwhile others are served."""
    with serving(path, patience=SHORT), contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(path)) for _ in range(2 * THREADS)]
        for connection in slow:
            connection.sendall(b"GET /nodes HTTP/1.1\r\nHost: ")
        assert ReadClient(UnixAddress(str(path))).get("nodes")
        deadline = time.monotonic() + 120
        while slow:
            assert time.monotonic() < deadline, "slow clients are still connected"
            slow = [connection for connection in slow if can_send(connection)]
            time.sleep(0.02)


def can_send(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"x")
    except OSError:
        return False
    return True


def test_a_reply_that_is_received_slowly_is_dropped_at_its_deadline(path):
    """A thread never waits for a client, and the rest of the reply is discarded."""
    state = claimed(empty(), 1)
    many = Map({uuid(n): replace(state.claims[uuid(1)], uuid=uuid(n)) for n in range(2000)})
    agent = sources(replace(state, claims=many))
    with serving(path, agent, patience=SHORT), contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(path)) for _ in range(2 * THREADS)]
        for connection in slow:
            connection.sendall(b"GET /claims HTTP/1.0\r\n\r\n")
        assert len(ReadClient(UnixAddress(str(path))).get("claims")["claims"]) == 2000
        deadline = time.monotonic() + 120
        while slow:
            assert time.monotonic() < deadline, "slow clients are still connected"
            slow = [
                connection for connection in slow if connection.recv(1) and not gone(connection)
            ]
            time.sleep(0.02)


def gone(connection: socket.socket) -> bool:
    """Whether the server has closed the connection."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


@pytest.mark.parametrize("beginning", [b"", b"GET /nodes HTTP/1.1\r\nHost: "])
def test_silent_clients_at_the_limit_make_room_for_those_that_ask(path, beginning):
    """Threads, memory and descriptors are bounded, and a probe is answered all the same."""
    reporter = Reports()
    with serving(path, patience=600, reporter=reporter), contextlib.ExitStack() as stack:
        silent = []
        for _ in range(64):
            silent.append(stack.enter_context(connect(path)))
            silent[-1].sendall(beginning)  # at once: the oldest may be closed at any time
        for _ in range(20):
            assert exchange(path, b"GET /ready HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200")
        assert reporter.counts["read_api_closed", "limit"] >= 64 - CONNECTIONS
        assert gone(silent[0]) and not gone(silent[-1]), "the oldest are closed"


def test_clients_that_do_not_receive_make_room_for_others(path):
    state = claimed(empty(), 1)
    many = Map({uuid(n): replace(state.claims[uuid(1)], uuid=uuid(n)) for n in range(2000)})
    agent = sources(replace(state, claims=many))
    with serving(path, agent, patience=600), contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS + THREADS):
            stack.enter_context(asking(path, b"/claims"))
        assert exchange(path, b"GET /ready HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200")


def test_a_request_in_progress_is_not_closed_for_another_connection(path):
    asked, answer = threading.Semaphore(0), threading.Event()

    def wait() -> bool:
        asked.release()
        return not answer.wait(60)

    with serving(path, replace(sources(), stale=wait), patience=600), contextlib.ExitStack() as s:
        s.callback(answer.set)
        busy = [s.enter_context(asking(path, b"/claims")) for _ in range(CONNECTIONS + 5)]
        for _ in range(THREADS):
            assert asked.acquire(timeout=60)
        assert not any(gone(connection) for connection in busy)
        answer.set()
        assert all(connection.recv(12) == b"HTTP/1.0 200" for connection in busy)


def asking(path: Path, target: bytes) -> socket.socket:
    """Connect, and send a request at once, as clients do."""
    connection = connect(path)
    connection.sendall(b"GET %b HTTP/1.0\r\n\r\n" % target)
    return connection


@contextlib.contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Lower the limit of this process, and use up the descriptors below it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used: list[int] = []
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                used.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in used:
            os.close(descriptor)


def test_an_idle_connection_gives_its_descriptor_to_a_client_that_asks(path):
    with serving(path, patience=600), contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect(path)) for _ in range(3)]
        assert ReadClient(UnixAddress(str(path))).get("nodes")
        with socket.socket(socket.AF_UNIX) as client, no_descriptors_left():
            client.settimeout(120)
            client.connect(str(path))
            client.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.0 200"
        assert gone(silent[0]) and not gone(silent[2])


def test_waiting_for_a_descriptor_takes_no_cpu(path):
    with serving(path, patience=600), socket.socket(socket.AF_UNIX) as client:
        with no_descriptors_left():
            client.settimeout(120)
            client.connect(str(path))
            client.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
            before = time.process_time()
            time.sleep(3)
            assert time.process_time() - before < 1
        assert client.recv(12) == b"HTTP/1.0 200"


def test_the_api_continues_after_an_error_of_its_event_loop(path):
    """The error comes from a reporter that fails when a connection is closed."""

    class FailingOnce(Reports):
        def counted(self, name: str, label: str, number: int = 1) -> None:
            super().counted(name, label, number)
            if self.counts[name, label] == 1:
                raise ZeroDivisionError("a defect")

    reporter = FailingOnce()
    with serving(path, patience=SHORT, reporter=reporter), connect(path) as silent:
        assert silent.recv(1) == b""
        assert ReadClient(UnixAddress(str(path))).get("nodes")
    message = "the read API failed and continues: ZeroDivisionError('a defect')"
    assert [line for line in reporter.logged if line[0] != "debug"] == [("error", message)]


def test_many_clients_at_once_each_see_one_state(path):
    """Revision and content are of the same snapshot while the state changes."""
    states = [empty()]
    for number in range(1, 6):
        states.append(claimed(states[-1], number))
    turn = iter(states * 20)
    lock = threading.Lock()

    def snapshot():
        with lock:
            return next(turn)

    changing = replace(sources(), snapshot=snapshot)
    seen = []
    with serving(path, changing, patience=30):

        def read() -> None:
            for _ in range(5):
                seen.append(ReadClient(UnixAddress(str(path))).get("claims"))

        threads = [threading.Thread(target=read) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 60
    assert all(len(document["claims"]) == document["revision"] for document in seen)


# -- start and stop ----------------------------------------------------------------------------


def test_only_user_and_group_of_the_agent_may_connect(api, path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert os.listdir(path.parent) == [path.name]


def test_stop_does_not_wait_for_an_idle_client(path):
    api = ReadAPI(UnixAddress(str(path)), sources(), patience=3600)
    api.start()
    with connect(path):
        ReadClient(UnixAddress(str(path))).get("nodes")  # so the first one has been accepted
        api.stop()
    assert not path.exists()
    api.stop()


def test_stop_finishes_the_request_in_progress(path):
    asked, answer = threading.Event(), threading.Event()

    def wait() -> bool:
        asked.set()
        return not answer.wait(120)

    with serving(path, replace(sources(), stale=wait), patience=30) as api:
        replies: list[bytes] = []
        client = threading.Thread(
            target=lambda: replies.append(exchange(path, b"GET /claims HTTP/1.0\r\n\r\n"))
        )
        client.start()
        assert asked.wait(120)
        stop = threading.Thread(target=api.stop)
        stop.start()
        answer.set()
        for thread in (client, stop):
            thread.join(120)
    assert len(parsed(replies[0])[2]["claims"]) == 2


def test_a_stopped_server_can_be_replaced_at_the_same_address(path):
    for _ in range(2):
        with serving(path):
            assert ReadClient(UnixAddress(str(path))).get("nodes")


def test_a_stopped_server_leaves_no_thread(path):
    before = set(threading.enumerate())
    with serving(path):
        exchange(path, b"GET /ready HTTP/1.0\r\n\r\n")
        assert len(set(threading.enumerate()) - before) == 2
    assert set(threading.enumerate()) <= before


def test_a_socket_that_a_dead_process_left_is_replaced(path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with serving(path):
        assert ReadClient(UnixAddress(str(path))).get("nodes")


def test_a_socket_of_a_live_process_is_not_replaced(api, path):
    with pytest.raises(ConfigError, match="another process listens there"):
        ReadAPI(UnixAddress(str(path)), sources()).start()
    assert ReadClient(UnixAddress(str(path))).get("nodes")


def test_a_file_that_is_not_a_socket_is_not_replaced(path):
    path.write_text("precious")
    with pytest.raises(ConfigError, match="not a socket"):
        ReadAPI(UnixAddress(str(path)), sources()).start()
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "rule"),
    [("missing/rtagent.sock", "cannot listen there: No such file"), ("x" * 120, "at most 107")],
)
def test_a_path_that_cannot_be_used_is_a_config_error(tmp_path, name, rule):
    with pytest.raises(ConfigError, match=rf"\[api\] address = .*{rule}"):
        ReadAPI(UnixAddress(str(tmp_path / name)), sources()).start()


def test_stop_does_not_remove_the_socket_of_another_process(path):
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
