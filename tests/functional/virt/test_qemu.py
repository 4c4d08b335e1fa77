"""A private libvirtd with QEMU: real domains, and a daemon that dies or freezes."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from uuid import uuid4

import libvirt
import psutil
import pytest

from rtagent.errors import HypervisorUnavailable
from rtagent.virt.libvirt.domains import ROUND
from tests.functional.virt.conftest import GIB
from tests.functional.virt.watching import SOON, Recorder, Watcher
from tests.servers import domain_xml
from tests.servers.libvirt_relay import LibvirtRelay

#: Seconds. QEMU's monitor takes milliseconds, but a busy machine may stand still for seconds.
CALL_TIMEOUT = 10.0


@pytest.fixture
def connect(connect, libvirtd, tmp_path):
    """Makes hypervisors of libvirtd."""

    def make(uri=libvirtd.uri, **arguments):
        # libvirtd looks at its emulators when it is first asked, which takes its time.
        with libvirt_connection(libvirtd) as connection:
            connection.getCapabilities()
        return connect(uri, str(tmp_path), **{"call_timeout": CALL_TIMEOUT, **arguments})

    return make


@contextlib.contextmanager
def libvirt_connection(libvirtd):
    connection = libvirt.open(libvirtd.uri)
    try:
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def frozen(libvirtd):
    """Thawed whatever happens: closing a connection to it would hang."""
    libvirtd.freeze()
    try:
        yield
    finally:
        libvirtd.thaw()


def guest(vcpus=1, memory_mb=64):
    """A new domain: uuid and document."""
    uuid = str(uuid4())
    return uuid, domain_xml(uuid, uuid, vcpus=vcpus, memory_mb=memory_mb)


def sizes(hypervisor):
    seen = hypervisor.observe()
    assert (seen.complete, seen.problems) == (True, ())
    return {d.uuid: (d.active, d.vcpus, d.memory_mb) for d in seen.domains.values()}


def eventually(check):
    """Observe until the check is true; libvirtd may be unavailable meanwhile."""
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        with contextlib.suppress(HypervisorUnavailable, AssertionError):
            if check():
                return
        time.sleep(0.1)
    raise AssertionError("it did not become true")


def test_a_change_of_the_host_that_nothing_announces_is_noticed(connect, libvirtd, tmp_path):
    """Neither node information nor the CPU map changes, and the connection holds."""
    relay = LibvirtRelay(tmp_path / "sock", libvirtd.directory / "libvirt-sock")
    hypervisor = connect(f"qemu:///system?socket={tmp_path}/sock")
    first = hypervisor.observe().topology
    relay.replaced = {b"size='2048'>0<": b"size='2048'>7<"}
    seen = [hypervisor.observe().topology for _ in range(ROUND)]
    relay.close()
    assert seen[0] == first
    assert seen[-1] not in (first, None)


def test_the_host(connect, virsh):
    hypervisor = connect()
    identity = hypervisor.identity()
    assert identity.hostname == virsh.getHostname()
    assert f"<uuid>{identity.host_uuid}</uuid>" in virsh.getCapabilities()

    topology = hypervisor.observe().topology
    assert topology.cpus == set(_online())
    assert 0 < topology.memory_mb <= _memory_kib() // 1024  # some machines' memory comes and goes
    assert topology.disk_mb == 100 * 1024
    assert topology.hypervisor_type == "QEMU"
    assert topology.hypervisor_version == virsh.getVersion()
    assert ("x86_64", "qemu", "hvm") in topology.supported_hv_specs
    assert topology.cpu_info["arch"] == "x86_64"
    assert {
        *("COMPUTE_ARCH_X86_64", "COMPUTE_NET_VIF_MODEL_VIRTIO", "COMPUTE_STORAGE_BUS_VIRTIO"),
        *("COMPUTE_VIOMMU_MODEL_INTEL", "COMPUTE_VOLUME_EXTEND", "HW_ARCH_X86_64"),
    } <= topology.traits
    assert ("HW_CPU_X86_SSE42" in topology.traits) == ("sse4_2" in _cpu_flags())


def test_domains_have_exactly_the_sizes_that_they_were_started_with(connect, virsh):
    wanted = {}
    for vcpus, memory_mb in ((1, 64), (2, 127), (4, 33)):
        uuid, document = guest(vcpus, memory_mb)
        virsh.createXML(document)
        wanted[uuid] = (True, vcpus, memory_mb)
    uuid, document = guest(3, 100)
    virsh.defineXML(document)
    wanted[uuid] = (False, 3, 100)

    hypervisor = connect()
    assert sizes(hypervisor) == wanted
    assert sizes(hypervisor) == wanted


def test_a_domain_with_a_balloon_keeps_its_size(connect, virsh):
    uuid, document = guest(1, 128)
    domain = virsh.createXML(
        document.replace("memballoon model='none'", "memballoon model='virtio'")
    )
    hypervisor = connect()
    assert sizes(hypervisor) == {uuid: (True, 1, 128)}
    domain.setMemory(64 * 1024)
    assert sizes(hypervisor) == {uuid: (True, 1, 128)}


def test_hot_plugged_vcpus_are_seen_at_the_next_observation(connect, virsh):
    uuid, document = guest(1, 64)
    domain = virsh.createXML(document.replace("<vcpu>1</vcpu>", "<vcpu current='1'>4</vcpu>"))
    hypervisor = connect()
    assert sizes(hypervisor) == {uuid: (True, 1, 64)}
    domain.setVcpus(3)
    assert sizes(hypervisor) == {uuid: (True, 3, 64)}


def test_lifecycle_changes_emit_events_and_are_observed(connect, virsh):
    watcher, hypervisor = Watcher(), connect()
    hypervisor.start(watcher)
    assert sizes(hypervisor) == {}

    uuid, document = guest(2, 64)
    domain = virsh.defineXML(document)
    watcher.wait_for("lifecycle")
    assert sizes(hypervisor) == {uuid: (False, 2, 64)}

    domain.create()
    watcher.wait_for("lifecycle")
    eventually(lambda: sizes(hypervisor) == {uuid: (True, 2, 64)})

    domain.suspend()
    assert sizes(hypervisor) == {uuid: (True, 2, 64)}

    domain.destroy()
    eventually(lambda: sizes(hypervisor) == {uuid: (False, 2, 64)})

    domain.undefine()
    eventually(lambda: sizes(hypervisor) == {})


def test_a_device_event_is_delivered(connect, virsh):
    watcher, hypervisor = Watcher(), connect()
    uuid, document = guest()
    # Without ACPI the guest's bus takes nothing while it runs.
    document = document.replace("<devices>", "<features><acpi/></features><devices>")
    domain = virsh.createXML(document)
    hypervisor.start(watcher)
    hypervisor.observe()
    domain.attachDevice("<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>")
    watcher.wait_for("device")
    assert uuid in sizes(hypervisor)


def test_sparse_disks_count_with_their_possible_growth(connect, virsh, tmp_path):
    sparse, elsewhere = tmp_path / "disk", tmp_path.parent / f"{tmp_path.name}-else"
    for path in (sparse, elsewhere):
        with path.open("wb") as file:
            file.truncate(3 * GIB)
            file.write(b"x" * 1024 * 1024)
            os.fsync(file.fileno())
    disks = "".join(
        f"<disk type='file'><driver name='qemu' type='raw'/><source file='{path}'/>"
        f"<target dev='vd{letter}' bus='virtio'/></disk>"
        for letter, path in zip("ab", (sparse, elsewhere), strict=True)
    )
    _, document = guest()
    virsh.createXML(document.replace("<devices>", f"<devices>{disks}"))
    _, document = guest()
    other = disks.replace(str(sparse), f"{sparse}-2").split("</disk>")[0] + "</disk>"
    Path(f"{sparse}-2").write_bytes(b"x")
    os.truncate(f"{sparse}-2", 5 * GIB)
    virsh.defineXML(document.replace("<devices>", f"<devices>{other}"))

    # 40 free, less (3 GiB - 1 MiB) and (5 GiB - 4 KiB), in whole GB
    assert connect().observe().disk_available_least == 32


def test_the_connection_is_reopened_after_libvirtd_restarts(connect, libvirtd, virsh):
    watcher, reporter = Watcher(), Recorder()
    uuid, document = guest(2, 64)
    virsh.createXML(document)
    hypervisor = connect(reporter=reporter)
    hypervisor.start(watcher)
    assert sizes(hypervisor) == {uuid: (True, 2, 64)}

    libvirtd.kill()
    watcher.wait_for("connection")
    with pytest.raises(HypervisorUnavailable):
        hypervisor.observe()
    assert reporter.healths["hypervisor"][0] == "fail"
    assert any("lost the connection" in sentence for _, sentence in reporter.sentences)

    libvirtd.start()
    eventually(lambda: sizes(hypervisor) == {uuid: (True, 2, 64)})
    assert reporter.healths["hypervisor"] == ("pass", "")

    other, document = guest()
    with libvirt_connection(libvirtd) as connection:
        connection.createXML(document)
    watcher.wait_for("lifecycle")
    assert set(sizes(hypervisor)) == {uuid, other}


def test_a_frozen_libvirtd_is_unavailable_until_it_continues(connect, libvirtd, virsh):
    uuid, document = guest(2, 64)
    virsh.createXML(document)
    watcher, hypervisor = Watcher(), connect(call_timeout=0.5)
    hypervisor.start(watcher)
    eventually(lambda: uuid in hypervisor.observe().domains)

    with frozen(libvirtd):
        for _ in range(12):  # more than may hang at a time
            with pytest.raises(HypervisorUnavailable):
                hypervisor.observe()
        assert sum(thread.name == "bounded-call" for thread in threading.enumerate()) <= 8
        watcher.wait_for("connection")

    eventually(lambda: sizes(hypervisor) == {uuid: (True, 2, 64)})


def test_an_idle_connection_to_a_frozen_libvirtd_is_noticed(connect, libvirtd):
    watcher, hypervisor = Watcher(), connect()
    hypervisor.start(watcher)
    hypervisor.observe()
    with frozen(libvirtd):
        watcher.wait_for("connection")
    eventually(lambda: hypervisor.observe().complete)


def test_a_hanging_guest_does_not_affect_the_others(connect, libvirtd, virsh):
    (stuck, stuck_document), (well, well_document) = guest(1, 64), guest(2, 64)
    virsh.createXML(stuck_document)
    virsh.createXML(well_document)
    hypervisor = connect()
    before = sizes(hypervisor)
    assert set(before) == {stuck, well}

    process = _emulator_of(stuck)
    process.send_signal(signal.SIGSTOP)
    try:
        seen = hypervisor.observe()
        assert seen.complete
        assert {d.uuid: (d.active, d.vcpus, d.memory_mb) for d in seen.domains.values()} == before
        assert [problem.item for problem in seen.problems] == ["domain statistics"]

        # Who is known to be busy is not waited for again.
        assert sizes(hypervisor) == before
    finally:
        process.send_signal(signal.SIGCONT)
    eventually(lambda: sizes(hypervisor) == before)


def _emulator_of(uuid):
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.name().startswith("qemu-system") and uuid in process.cmdline():
                return process
    raise AssertionError(f"no emulator runs {uuid}")


def _online():
    return [
        int(line.split(":")[1])
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("processor")
    ]


def _cpu_flags():
    return Path("/proc/cpuinfo").read_text().partition("flags")[2].splitlines()[0].split()


def _memory_kib():
    return int(Path("/proc/meminfo").read_text().split()[1])
