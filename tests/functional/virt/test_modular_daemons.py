"""libvirt as separate daemons: virtnodedevd is not there, ends, and returns.

Debian has no virtqemud. In its place stands a private libvirtd behind a relay that speaks libvirt's
RPC protocol: it answers the calls about node devices as virtqemud does for virtnodedevd.
"""

import libvirt
import pytest

from rtagent.virt.simulate import Machine, simulate
from tests.functional.virt.watching import Recorder
from tests.servers.libvirt_relay import LibvirtRelay, refusal

#: Numbers of procedures in libvirt's remote_protocol.x: XMLDesc of a device, the listing, and the
#: registration of events.
XML, LIST, EVENTS = 114, 285, 374
MACHINE = Machine(sockets=1, cores=4, threads=2, memory_mb=8192, nics=1, vfs=2)
ABSENT = "Failed to connect socket to '/run/libvirt/virtnodedevd-sock': No such file or directory"
CLOSED = "internal error: client socket is closed"


class Virtqemud(LibvirtRelay):
    """It connects to virtnodedevd once on behalf of each client, and never again: see
    remoteOpenConn in libvirt's remote_daemon_dispatch.c.

    :ivar lacks: the procedures that are refused. :ivar passed: those that were not, since the start
        of virtnodedevd.
    """

    def __init__(self, path, target):
        self.lacks = frozenset()
        self.passed = set()
        self._start = 0
        self._clients = {}  # the start of virtnodedevd to which each one is connected
        super().__init__(path, target)

    def end_virtnodedevd(self, *procedures):
        self.lacks = frozenset(procedures or (XML, LIST, EVENTS))
        self._start += 1

    def start_virtnodedevd(self):
        self.lacks = frozenset()
        self.passed.clear()

    def answer(self, client, procedure, call):
        if procedure not in (XML, LIST, EVENTS):
            return None
        if self._clients.get(client, self._start) != self._start:
            return refusal(call, libvirt.VIR_ERR_INTERNAL_ERROR, libvirt.VIR_FROM_RPC, CLOSED)
        if procedure in self.lacks:
            return refusal(call, libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_FROM_RPC, ABSENT)
        self._clients[client] = self._start
        self.passed.add(procedure)
        return None


@pytest.fixture
def virtqemud(libvirtd, tmp_path):
    relay = Virtqemud(tmp_path / "sock", libvirtd.directory / "libvirt-sock")
    yield relay
    relay.close()


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def hypervisor(connect, virtqemud, tmp_path, recorder):
    """A simulated host that libvirtd serves."""
    simulate(tmp_path / "host.xml", MACHINE)
    uri = f"test+unix://{tmp_path}/host.xml?socket={tmp_path}/sock"
    return connect(uri, call_timeout=30.0, reporter=recorder)


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
