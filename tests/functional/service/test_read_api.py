"""The daemon's read API while clients misbehave and descriptors are short."""

import contextlib
import os
import resource
import socket
import time

import psutil
import pytest

from tests.servers.daemon import Daemon

#: More than the read API serves at a time.
CLIENTS = 64


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("daemon"), "fake://") as made:
        made.wait_ready()
        yield made


def cpu_seconds(daemon: Daemon) -> float:
    times = psutil.Process(daemon.pid).cpu_times()
    return times.user + times.system


@pytest.mark.parametrize("spare", [1000, 8])
def test_probes_are_answered_while_slow_clients_hold_every_connection(daemon, spare):
    """In the second case by descriptors: fewer are left than the read API may have connections."""
    highest = max(int(name) for name in os.listdir(f"/proc/{daemon.pid}/fd"))
    limits = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    lower = (highest + 1 + spare, limits[1])
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, lower)
    with contextlib.ExitStack() as stack:
        stack.callback(resource.prlimit, daemon.pid, resource.RLIMIT_NOFILE, limits)
        for _ in range(CLIENTS):
            slow = stack.enter_context(socket.socket(socket.AF_UNIX))
            slow.settimeout(120)
            slow.connect(daemon.address.path)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                slow.sendall(b"GET /claims HTTP/1.1\r\nHost: ")
        for _ in range(10):
            assert daemon.read("ready")["ready"]
            assert daemon.read("health")["status"] == "pass"
        before = cpu_seconds(daemon)
        time.sleep(2)
        assert cpu_seconds(daemon) - before < 1


def get(daemon: Daemon, path: str) -> tuple[int, str]:
    """Return the status and the body of a page."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(daemon.address.path)
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        with connection.makefile("r") as reply:
            head, _, body = reply.read().partition("\n\n")
    return int(head.split()[1]), body


def test_the_daemon_serves_its_pages_and_what_is_behind_them(daemon):
    audits = daemon.read("timeline", kind="audit")["timeline"]
    assert "start" in audits[-1]["subject"]
    history = daemon.read("history")
    assert (history["history"], history["older"]) == ([], None)
    for path in ("/", "/page/claims", "/page/timeline", "/page/history"):
        assert get(daemon, path)[0] == 200, path
    status, body = get(daemon, "/page/fit?vcpus=1&memory_mb=64")
    assert (status, "It fits" in body) == (200, True)
    assert daemon.read("claims")["claims"] == []
    assert get(daemon, "/page/claims/unknown")[0] == 404
