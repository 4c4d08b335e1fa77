"""A conductor is suspended while it makes a call, which has its effect when it goes on."""

import fcntl
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from rtagent.virt.simulate import Machine, domain_xml, edit, simulate
from tests.chaos.nemesis.fault import NotYet
from tests.chaos.nemesis.late_calls import LateAllocation, LateBrokerCall, LateCall, LateOrder
from tests.chaos.world.link import Link
from tests.chaos.world.part import PartProcess
from tests.servers.daemon import ROOT, wait_until
from tests.servers.process import Process

#: Seconds of silence after which nothing is expected any more.
SILENCE = 0.2
LOCAL = "127.0.0.1"
NAME, HOST, UUID = "conductor-1", "host-1", "5f0c3cf5-5a4f-4b0b-8a43-6d6ff8f2a0f1"
#: Removes a domain from a host when a file is there.
ORDER = """
import sys, time
from pathlib import Path
from rtagent.virt.simulate import edit
host, now, uuid = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
while not now.exists():
    time.sleep(0.01)
with edit(host) as world:
    world.remove_domain(uuid)
"""


class Suspended:
    """A fault of a world with one conductor, a process that runs a command."""

    def __init__(
        self, fault: LateCall, directory: Path, command: list[str], link: Link | None = None
    ) -> None:
        self._program: Any = Process(command, {}, ROOT, directory / "log", signal.SIGTERM)
        self._process = PartProcess(self._program)
        self._fault = fault
        self._world: Any = SimpleNamespace(
            conductors={NAME: SimpleNamespace(name=NAME, process=self._process)},
            agents={HOST: SimpleNamespace(directory=directory)},
            simulated=[HOST],
            link=lambda client, server: link,
        )

    def begin(self) -> None:
        self._fault.begin(self._world, Random(1))

    def wait_suspended(self) -> None:
        wait_until(lambda: self._fault.details.get("suspended") == NAME)
        assert self._process.paused
        with pytest.raises(NotYet):
            self._fault.end(self._world)

    def end(self) -> None:
        """End the fault as a quiet period does, which resumes all processes before."""
        self._process.resume()
        self._fault.end(self._world)

    def wait(self) -> None:
        assert self._program.wait(60) == 0

    def kill(self) -> None:
        self._program.kill()


def is_locked(directory: Path) -> bool:
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextmanager
def echo() -> Iterator[int]:
    """Serve one connection, which gets back what it sends. Yield the port."""
    with socket.create_server((LOCAL, 0)) as server:

        def serve() -> None:
            with server.accept()[0] as connection, suppress(OSError):
                while data := connection.recv(100):
                    connection.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_an_order_for_a_guest_is_late(tmp_path: Path):
    host, now = tmp_path / "host.xml", tmp_path / "now"
    simulate(host, Machine(), [domain_xml(UUID, vcpus=1, memory_mb=64)])
    command = [sys.executable, "-c", ORDER, str(host), str(now), UUID]
    suspended = Suspended(LateOrder(), tmp_path, command)
    try:
        suspended.begin()
        wait_until(lambda: is_locked(tmp_path))
        now.touch()
        suspended.wait_suspended()
        with edit(host) as world:  # the host is there for others
            assert world.domain(UUID) is not None
        suspended.end()
        suspended.wait()
        with edit(host) as world:
            assert world.domain(UUID) is None
    finally:
        suspended.kill()


@pytest.mark.parametrize(
    ("fault", "read", "call"),
    [
        (LateBrokerCall(), rb"{\"method\": \"ping\"", rb"{\"method\": \"instance_claim\""),
        (LateAllocation(), b"GET /allocations/a", b"POST /allocations "),
    ],
    ids=["broker", "placement"],
)
def test_a_message_is_late(fault: LateCall, read: bytes, call: bytes, tmp_path: Path):
    with echo() as port, Link(port) as link, socket.create_connection((LOCAL, link.port)) as client:
        client.settimeout(30)
        suspended = Suspended(fault, tmp_path, ["sleep", "600"], link)
        try:
            suspended.begin()
            client.sendall(read)
            assert client.recv(100) == read
            client.sendall(call)
            suspended.wait_suspended()
            client.settimeout(SILENCE)
            with pytest.raises(TimeoutError):
                client.recv(100)
            client.settimeout(30)
            suspended.end()
            assert client.recv(100) == call
        finally:
            suspended.kill()
