"""Simulated hosts through libvirt's test driver."""

import contextlib
import threading
from uuid import uuid4

import libvirt
import msgspec
import pytest

from rtagent.errors import HypervisorUnavailable
from rtagent.model.domain_usage import Occupancy
from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_ES
from rtagent.ports import HostIdentity
from rtagent.telemetry.telemetry import Telemetry
from rtagent.virt.libvirt.hostfile import capabilities_path
from rtagent.virt.libvirt.storage import FileSystem
from rtagent.virt.monitors.cpu import VirtDriverMonitor
from rtagent.virt.simulate import Machine, domain_xml, edit, host_uri, simulate
from tests.functional.virt.conftest import GIB
from tests.functional.virt.watching import SOON, Recorder, Watcher
from tests.support.hosts import NOON, ManualClock, uid

MACHINE = Machine(
    sockets=2, cores=4, threads=2, memory_mb=65536, hostname="node-1", sev_guests=2, sev_es_guests=1
)


@pytest.fixture
def file(tmp_path):
    simulate(tmp_path / "host.xml", MACHINE)
    return tmp_path / "host.xml"


@pytest.fixture
def default():
    """The world of ``test:///default``, which all connections of this process share."""
    connection = libvirt.open("test:///default")
    yield connection
    for domain in connection.listAllDomains():
        if domain.name() != "test":
            domain.destroy()
    connection.close()


def sizes(hypervisor):
    seen = hypervisor.observe()
    assert seen.complete
    return {d.uuid: (d.active, d.vcpus, d.memory_mb) for d in seen.domains.values()}


def test_the_host(connect, file):
    hypervisor = connect(host_uri(file))

    assert hypervisor.identity() == HostIdentity(hostname="node-1", host_uuid="")
    seen = hypervisor.observe()

    assert (seen.domains, seen.complete, seen.problems) == ({}, True, ())
    assert seen.disk_available_least == 40
    topology = seen.topology
    assert topology.cpus == frozenset(range(16))
    assert (topology.memory_mb, topology.disk_mb) == (65536, 100 * 1024)
    assert (topology.hypervisor_type, topology.hypervisor_version) == ("TEST", 2)
    assert topology.supported_hv_specs == (("x86_64", "test", "hvm"),)
    assert "avx2" in topology.cpu_info["features"], "the CPU's model implies it"
    assert {"HW_CPU_HYPERTHREADING", "HW_CPU_X86_AVX2", "COMPUTE_ARCH_X86_64"} <= topology.traits
    assert {"COMPUTE_IMAGE_TYPE_QCOW2", "COMPUTE_NET_ATTACH_INTERFACE"} <= topology.traits
    contexts = {each.model: each.contexts for each in topology.mem_encryption}
    assert contexts == {AMD_SEV: 2, AMD_SEV_ES: 1}


def test_a_host_without_a_capabilities_document(connect, file):
    capabilities_path(file).unlink()
    hypervisor = connect(host_uri(file))

    assert hypervisor.identity().hostname == libvirt.open(host_uri(file)).getHostname()
    topology = hypervisor.observe().topology
    assert (topology.cpus, topology.cells) == (frozenset(range(16)), ())


def test_the_use_of_the_cpus(connect):
    monitor = VirtDriverMonitor(connect("test:///default"))
    metrics = {each.name: each.value for each in monitor.measure(NOON)}
    assert metrics.keys() == monitor.names
    assert metrics["cpu.frequency"] == 1400
    assert 0.0 < metrics["cpu.percent"] < 1.0


def test_the_smallest_pages_do_not_change_when_the_kernel_takes_one(connect, file):
    before = connect(host_uri(file)).observe().topology
    path = capabilities_path(file)
    pages = 'unit="KiB" size="4">8388608<'
    assert path.read_text().count(pages) == 2
    path.write_text(path.read_text().replace(pages, 'unit="KiB" size="4">8388599<'))
    assert connect(host_uri(file)).observe().topology == before


def test_pages_of_the_default_size_that_may_be_in_any_cell(connect, tmp_path):
    """The default of a simulated host is the smallest size of its large pages."""
    file, uuid = tmp_path / "paged.xml", str(uuid4())
    simulate(file, msgspec.structs.replace(MACHINE, pages={2048: 1024, 1048576: 4}))
    document = domain_xml(uuid, vcpus=1, memory_mb=1536)
    with edit(file) as world:
        backing = "<memoryBacking><hugepages/></memoryBacking>"
        world.add_domain(document.replace("<os>", f"{backing}<os>"))

    seen = connect(host_uri(file)).observe().domains[uuid].occupancy

    each = {2048: 768}
    assert seen == Occupancy(memory_mb={0: 1536, 1: 1536}, pages={0: each, 1: each})


def test_an_edit_emits_an_event_and_is_observed(connect, file):
    watcher, first, second = Watcher(), str(uuid4()), str(uuid4())
    hypervisor = connect(host_uri(file))
    hypervisor.start(watcher)
    assert sizes(hypervisor) == {}

    with edit(file) as world:
        world.add_domain(domain_xml(first, vcpus=2, memory_mb=512))
    watcher.wait_for("file")
    assert sizes(hypervisor) == {first: (True, 2, 512)}

    with edit(file) as world:
        world.remove_domain(first)
        world.add_domain(domain_xml(second, vcpus=1, memory_mb=64))
    watcher.wait_for("file")
    assert sizes(hypervisor) == {second: (True, 1, 64)}


def test_an_edit_is_no_outage_and_a_host_that_is_switched_off_is_one(connect, file):
    watcher, telemetry = Watcher(), Telemetry(ManualClock())
    hypervisor = connect(host_uri(file), reporter=telemetry)
    hypervisor.start(watcher)
    hypervisor.observe()
    with edit(file) as world:
        world.add_domain(domain_xml(str(uuid4()), vcpus=2, memory_mb=512))
    watcher.wait_for("file")
    hypervisor.observe()
    assert telemetry.timeline.view().entries == ()

    file.unlink()
    with pytest.raises(HypervisorUnavailable):
        hypervisor.observe()
    [outage] = telemetry.timeline.view().entries
    assert (outage.kind, outage.subject, outage.until) == ("outage", "hypervisor", None)


def test_an_edit_is_seen_by_the_next_observation(connect, file):
    hypervisor, uuid = connect(host_uri(file)), str(uuid4())
    assert sizes(hypervisor) == {}
    with edit(file) as world:
        world.add_domain(domain_xml(uuid, vcpus=2, memory_mb=512))
    assert sizes(hypervisor) == {uuid: (True, 2, 512)}


def test_changed_hardware_is_observed(connect, file):
    hypervisor = connect(host_uri(file))
    assert hypervisor.observe().topology.memory_mb == 65536
    simulate(file, Machine(sockets=1, cores=2, threads=1, memory_mb=2048, hostname="node-1"))
    topology = hypervisor.observe().topology
    assert (topology.cpus, topology.memory_mb) == ({0, 1}, 2048)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff\xfe", bytes(range(256)), b"<node>\xe9</node>", b"<node><domain/></node>"],
)
def test_an_invalid_host_file_is_unavailable_until_it_is_repaired(connect, file, content):
    reporter = Recorder()
    hypervisor = connect(host_uri(file), reporter=reporter)
    hypervisor.observe()
    whole = file.read_bytes()

    file.write_bytes(content)
    for call in (hypervisor.observe, hypervisor.identity):
        with pytest.raises(HypervisorUnavailable, match=r"host\.xml"):
            call()
        assert reporter.healths["hypervisor"][0] == "fail"

    file.write_bytes(whole)
    assert hypervisor.observe().complete
    assert reporter.healths["hypervisor"] == ("pass", "")


def test_invalid_capabilities_are_a_problem_and_domains_are_observed(connect, file):
    uuid = str(uuid4())
    with edit(file) as world:
        world.add_domain(domain_xml(uuid, vcpus=2, memory_mb=512))
    capabilities_path(file).write_text("<capabilities/>")
    hypervisor = connect(host_uri(file))

    seen = hypervisor.observe()

    assert seen.topology is None
    assert [problem.item for problem in seen.problems] == ["host capabilities"]
    assert seen.domains[uuid].vcpus == 2
    with pytest.raises(HypervisorUnavailable, match="capabilities"):
        hypervisor.identity()


def test_a_domain_that_is_started_again_with_another_size(connect, default):
    watcher, uuid = Watcher(), str(uuid4())
    hypervisor = connect("test:///default")
    hypervisor.start(watcher)
    default.createXML(domain_xml(uuid, vcpus=2, memory_mb=512)).destroy()
    hypervisor.observe()
    for vcpus in (1, 4):
        domain = default.createXML(domain_xml(uuid, vcpus=vcpus, memory_mb=512))
        watcher.wait_for("lifecycle")
        assert sizes(hypervisor)[uuid] == (True, vcpus, 512)
        domain.destroy()
        watcher.wait_for("lifecycle")
        default.createXML(domain_xml(uuid, vcpus=3, memory_mb=512)).destroy()


def test_no_event_is_delivered_after_stop(connect, default):
    watcher = Watcher()
    hypervisor = connect("test:///default")
    hypervisor.start(watcher)
    hypervisor.observe()
    hypervisor.stop()
    before = list(watcher.words())  # libvirt may deliver events of earlier domains late

    heard = Watcher()
    other = connect("test:///default")
    other.start(heard)
    other.observe()
    default.createXML(domain_xml(str(uuid4()), vcpus=1, memory_mb=64))
    heard.wait_for("lifecycle")

    assert watcher.words() == before


def test_hanging_storage_affects_only_its_own_values(connect, file):
    release, hangs = threading.Event(), threading.Event()

    def probe(path):
        if hangs.is_set():
            release.wait(SOON)
        return FileSystem(total=2 * GIB, free=GIB)

    hypervisor = connect(host_uri(file), probe=probe, call_timeout=3)
    before = hypervisor.observe()
    hangs.set()
    try:
        for _ in range(2):
            seen = hypervisor.observe()
            assert [problem.item for problem in seen.problems] == ["storage /instances"]
            assert seen.complete
            assert seen.topology == before.topology
            assert seen.disk_available_least is None
    finally:
        release.set()


def test_the_topology_is_unknown_until_storage_was_read(connect, file):
    def probe(path):
        raise FileNotFoundError(2, "No such file or directory", path)

    seen = connect(host_uri(file), probe=probe).observe()

    assert seen.topology is None
    assert "No such file or directory" in seen.problems[0].message


def test_host_that_takes_long_to_open_is_available_in_the_end_as_its_file_is_then(
    connect, tmp_path
):
    """The driver reads each domain of the file, which takes longer than the time-out of a call."""
    file = tmp_path / "host.xml"
    domains = [domain_xml(uid(number), vcpus=1, memory_mb=16) for number in range(1000)]
    simulate(file, MACHINE, domains)
    hypervisor = connect(host_uri(file), call_timeout=0.1)
    with contextlib.suppress(HypervisorUnavailable):
        hypervisor.identity()
    simulate(file, msgspec.structs.replace(MACHINE, hostname="node-2"), domains)

    found = None
    while found is None:
        with contextlib.suppress(HypervisorUnavailable):
            found = hypervisor.identity()
    assert found == HostIdentity(hostname="node-2", host_uuid="")
