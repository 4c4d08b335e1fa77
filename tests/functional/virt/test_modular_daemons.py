"""libvirt as separate daemons: virtnodedevd is not there, ends, and returns.

Debian has no virtqemud. In its place stands a private libvirtd behind a relay that speaks libvirt's
RPC protocol: it answers the calls about node devices as virtqemud does for virtnodedevd.
"""

import contextlib
import socket
import struct
import threading

import libvirt
import pytest

from rtagent.virt.libvirt import LibvirtHypervisor
from rtagent.virt.libvirt.storage import FileSystem
from rtagent.virt.simulate import Machine, simulate
from tests.functional.virt.watching import Recorder

#: Numbers of procedures in libvirt's remote_protocol.x: XMLDesc of a device, the listing, and the
#: registration of events.
XML, LIST, EVENTS = 114, 285, 374
MACHINE = Machine(sockets=1, cores=4, threads=2, memory_mb=8192, nics=1, vfs=2)
ABSENT = "Failed to connect socket to '/run/libvirt/virtnodedevd-sock': No such file or directory"
CLOSED = "internal error: client socket is closed"
#: Length, program, version, procedure, type, serial and status of a message.
HEADER = struct.Struct(">IIIiiIi")


def refusal(call, code, message):
    """Return the answer to a call: an error of another daemon's connection."""
    _, program, version, procedure, _, serial, _ = HEADER.unpack_from(call)
    text = message.encode()
    padding = b"\0" * (-len(text) % 4)
    body = struct.pack(">iiII", code, libvirt.VIR_FROM_RPC, 1, len(text)) + text + padding
    # The level, no domain, three absent texts, two numbers, no network.
    body += struct.pack(">iIIIIiiI", 2, 0, 0, 0, 0, -1, -1, 0)
    return HEADER.pack(HEADER.size + len(body), program, version, procedure, 1, serial, 1) + body


class Virtqemud:
    """Relays connections to libvirtd. :ivar lacks: the procedures that are refused.
    :ivar passed: the procedures that were not, since they were last cleared.

    Like virtqemud, it connects to virtnodedevd once on behalf of each client, and never again: see
    remoteOpenConn in libvirt's remote_daemon_dispatch.c.
    """

    def __init__(self, path, target):
        self.lacks = frozenset()
        self.passed = set()
        self.generation = 0
        self._target = target
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def end_virtnodedevd(self, *procedures):
        self.lacks = frozenset(procedures or (XML, LIST, EVENTS))
        self.generation += 1

    def start_virtnodedevd(self):
        self.lacks = frozenset()
        self.passed.clear()

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        threading.Thread(target=self._pump, args=(server, client), daemon=True).start()
        connected = None  # the generation of virtnodedevd that this client's connection is to
        with client, server, contextlib.suppress(OSError, struct.error):
            while True:
                call = _message(client)
                procedure = HEADER.unpack_from(call)[3]
                concerned = procedure in (XML, LIST, EVENTS)
                if concerned and connected not in (None, self.generation):
                    client.sendall(refusal(call, libvirt.VIR_ERR_INTERNAL_ERROR, CLOSED))
                elif procedure in self.lacks:
                    client.sendall(refusal(call, libvirt.VIR_ERR_SYSTEM_ERROR, ABSENT))
                else:
                    connected = self.generation if concerned else connected
                    self.passed.add(procedure)
                    server.sendall(call)

    def _pump(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)


def _message(source):
    size = source.recv(4, socket.MSG_WAITALL)
    return size + source.recv(struct.unpack(">I", size)[0] - 4, socket.MSG_WAITALL)


@pytest.fixture
def virtqemud(libvirtd, tmp_path):
    relay = Virtqemud(tmp_path / "sock", str(libvirtd.directory / "libvirt-sock"))
    yield relay
    relay.close()


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def hypervisor(virtqemud, tmp_path, recorder):
    """A simulated host that libvirtd serves."""
    simulate(tmp_path / "host.xml", MACHINE)
    uri = f"test+unix://{tmp_path}/host.xml?socket={tmp_path}/sock"
    whole = FileSystem(total=2**40, free=2**40)
    hypervisor = LibvirtHypervisor(
        uri, "/instances", call_timeout=30.0, reporter=recorder, probe=lambda _: whole
    )
    yield hypervisor
    hypervisor.stop()


def assert_unknown(seen):
    assert (seen.complete, seen.devices) == (True, None)
    assert seen.topology is not None
    (problem,) = seen.problems
    assert problem.item == "node devices"
    assert ABSENT in problem.message


def assert_listed(seen):
    assert (seen.complete, seen.problems) == (True, ())
    assert len(seen.devices) == 3


@pytest.mark.parametrize("lacking", [(), (LIST,), (XML,), (EVENTS,)])
def test_devices_are_unknown_until_their_daemon_is_there(hypervisor, virtqemud, recorder, lacking):
    virtqemud.end_virtnodedevd(*lacking)
    assert hypervisor.identity()
    for _ in range(3):
        assert_unknown(hypervisor.observe())

    virtqemud.start_virtnodedevd()

    assert_listed(hypervisor.observe())
    assert EVENTS in virtqemud.passed
    assert recorder.healths == {"hypervisor": ("pass", "")}


def test_devices_return_with_their_daemon(hypervisor, virtqemud, recorder):
    assert_listed(hypervisor.observe())
    virtqemud.end_virtnodedevd()
    assert_unknown(hypervisor.observe())

    virtqemud.start_virtnodedevd()

    assert_listed(hypervisor.observe())
    assert EVENTS in virtqemud.passed
    assert recorder.healths == {"hypervisor": ("pass", "")}


def test_a_restart_of_the_daemon_of_devices_is_not_noticed_but_by_new_subscriptions(
    hypervisor, virtqemud
):
    assert_listed(hypervisor.observe())
    virtqemud.end_virtnodedevd()
    virtqemud.start_virtnodedevd()

    assert_listed(hypervisor.observe())
    assert EVENTS in virtqemud.passed
