"""Simulated hosts through libvirt's test driver."""

import contextlib
import threading
import time
from uuid import uuid4

import libvirt
import msgspec
import pytest

from rtagent.errors import HypervisorUnavailable
from rtagent.model.domain_usage import Occupancy
from rtagent.model.topology import Cell
from rtagent.ports import HostIdentity
from rtagent.virt.libvirt import LibvirtHypervisor
from rtagent.virt.libvirt.hostfile import capabilities_path
from rtagent.virt.libvirt.storage import FileSystem
from rtagent.virt.monitors.cpu import VirtDriverMonitor
from rtagent.virt.simulate import Machine, domain_xml, edit, host_uri, simulate
from tests.functional.virt.watching import SOON, Recorder, Watcher
from tests.support.hosts import NOON, uid

MACHINE = Machine(sockets=2, cores=4, threads=2, memory_mb=65536, hostname="node-1")
GIB = 1024**3


def disk(path):
    return FileSystem(total=100 * GIB + 1, free=40 * GIB + 1)


@pytest.fixture
def file(tmp_path):
    simulate(tmp_path / "host.xml", MACHINE)
    return tmp_path / "host.xml"


@pytest.fixture
def connect():
    """Makes hypervisors that are stopped in the end."""
    with contextlib.ExitStack() as stack:

        def make(uri, **arguments):
            hypervisor = LibvirtHypervisor(uri, "/instances", **{"probe": disk, **arguments})
            stack.callback(hypervisor.stop)
            return hypervisor

        yield make


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
    assert {"HW_CPU_HYPERTHREADING", "HW_CPU_X86_AVX2", "COMPUTE_ARCH_X86_64"} <= topology.traits
    assert {"COMPUTE_IMAGE_TYPE_QCOW2", "COMPUTE_NET_ATTACH_INTERFACE"} <= topology.traits


def test_a_host_without_a_capabilities_document(connect, file):
    capabilities_path(file).unlink()
    hypervisor = connect(host_uri(file))

    assert hypervisor.identity().hostname == libvirt.open(host_uri(file)).getHostname()
    topology = hypervisor.observe().topology
    assert (topology.cpus, topology.cells) == (frozenset(range(16)), ())


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", bytes(range(256)), b"<node>\xe9</node>"])
def test_a_host_file_of_any_bytes_is_a_host_that_does_not_answer(connect, file, content):
    hypervisor = connect(host_uri(file))
    hypervisor.observe()
    good = file.read_bytes()

    file.write_bytes(content)
    for call in (hypervisor.observe, hypervisor.identity):
        with pytest.raises(HypervisorUnavailable):
            call()

    file.write_bytes(good)
    assert hypervisor.observe().complete


def test_the_default_test_host(connect):
    seen = connect("test:///default").observe()
    assert seen.topology.cpus == frozenset(range(16))
    assert [(d.name, d.active, d.vcpus) for d in seen.domains.values()] == [("test", True, 2)]


def test_the_use_of_the_cpus(connect):
    monitor = VirtDriverMonitor(connect("test:///default"))
    metrics = {each.name: each.value for each in monitor.measure(NOON)}
    assert metrics.keys() == monitor.names
    assert metrics["cpu.frequency"] == 1400
    assert 0.0 < metrics["cpu.percent"] < 1.0


def test_the_cells_of_a_simulated_host(connect, file):
    simulate(file, msgspec.structs.replace(MACHINE, pages={2048: 512}))
    near, far = connect(host_uri(file)).observe().topology.cells
    assert near == Cell(
        id=0,
        cpus=frozenset({0, 1, 2, 3, 8, 9, 10, 11}),
        memory_mb=32768,
        siblings=tuple(frozenset({cpu, cpu + 8}) for cpu in range(4)),
        sockets=frozenset({0}),
        distances={0: 10, 1: 21},
        pages={4: (32768 - 1024) * 256, 2048: 512, 1048576: 0},
    )
    assert (far.id, far.pages) == (1, near.pages)


def test_the_smallest_pages_do_not_change_when_the_kernel_takes_one(connect, file):
    before = connect(host_uri(file)).observe().topology
    path = capabilities_path(file)
    pages = 'unit="KiB" size="4">8388608<'
    assert path.read_text().count(pages) == 2
    path.write_text(path.read_text().replace(pages, 'unit="KiB" size="4">8388599<'))
    assert connect(host_uri(file)).observe().topology == before


def test_domains_with_their_pins(connect, file):
    pinned, foreign, plain, defined = (str(uuid4()) for _ in range(4))
    tuning = (
        "<cputune><vcpupin vcpu='0' cpuset='1'/><vcpupin vcpu='1' cpuset='9'/></cputune>"
        "<numatune><memory mode='strict' nodeset='1'/></numatune>"
    )
    with edit(file) as world:
        for uuid, cpuset, active in (
            (pinned, "", True),
            (foreign, " cpuset='4-5'", True),
            (plain, " cpuset='0-15'", True),
            (defined, " cpuset='4-5'", False),
        ):
            document = domain_xml(uuid, vcpus=2, memory_mb=512, active=active)
            document = document.replace("<vcpu>", f"<vcpu{cpuset}>")
            world.add_domain(
                document.replace("<os>", f"{tuning}<os>") if uuid == pinned else document
            )

    seen = connect(host_uri(file)).observe()

    assert (seen.complete, seen.problems) == (True, ())
    assert seen.domains[pinned].occupancy == Occupancy(
        pcpus=frozenset({1, 9}), vcpus=(frozenset({1}), frozenset({9})), memory_mb={1: 512}
    )
    assert seen.domains[foreign].domain_usage().occupancy == Occupancy(
        pcpus=frozenset({4, 5}), vcpus=(frozenset({4, 5}),) * 2
    )
    assert seen.domains[plain].occupancy == seen.domains[defined].occupancy == Occupancy()


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


def test_a_device_that_no_host_offers_hides_nothing_of_its_domain(connect, file):
    uuid, places = str(uuid4()), (("0x10000", "0xe1"), ("0x0000", "0x20"))
    devices = "".join(
        "<hostdev mode='subsystem' type='pci'><source>"
        f"<address domain='{domain}' bus='{bus}' slot='0x02' function='0x0'/></source></hostdev>"
        for domain, bus in places
    )
    with edit(file) as world:
        document = domain_xml(uuid, vcpus=2, memory_mb=512).replace("<vcpu>", "<vcpu cpuset='4-5'>")
        world.add_domain(document.replace("</domain>", f"<devices>{devices}</devices></domain>"))

    seen = connect(host_uri(file)).observe()

    assert (seen.complete, seen.problems) == (True, ())
    assert seen.domains[uuid].domain_usage().occupancy == Occupancy(
        pcpus=frozenset({4, 5}), vcpus=(frozenset({4, 5}),) * 2, devices=frozenset({"0000:20:02.0"})
    )


def test_domains_with_their_sizes(connect, file):
    running, defined = str(uuid4()), str(uuid4())
    with edit(file) as world:
        world.add_domain(domain_xml(running, vcpus=2, memory_mb=1000))
        world.add_domain(domain_xml(defined, vcpus=1, memory_mb=33, active=False))

    assert sizes(connect(host_uri(file))) == {running: (True, 2, 1000), defined: (False, 1, 33)}


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


def test_an_invalid_host_file_is_unavailable_until_it_is_repaired(connect, file):
    reporter = Recorder()
    hypervisor = connect(host_uri(file), reporter=reporter)
    hypervisor.observe()
    whole = file.read_bytes()

    file.write_text("<node><domain/></node>")
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


def test_a_domain_is_seen_to_start_and_stop(connect, default):
    watcher, uuid = Watcher(), str(uuid4())
    hypervisor = connect("test:///default")
    hypervisor.start(watcher)
    hypervisor.observe()

    domain = default.createXML(domain_xml(uuid, vcpus=2, memory_mb=512))
    watcher.wait_for("lifecycle")
    assert sizes(hypervisor)[uuid] == (True, 2, 512)

    domain.destroy()
    watcher.wait_for("lifecycle")
    assert uuid not in sizes(hypervisor)


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


def test_changes_without_events_are_seen_within_ten_observations(connect, default):
    domains = [
        default.createXML(domain_xml(str(uuid4()), vcpus=4, memory_mb=512)) for _ in range(25)
    ]
    hypervisor = connect("test:///default")
    hypervisor.observe()

    for domain in domains:
        domain.setVcpus(3)  # the test driver sends no event for it
    changed = []
    for _ in range(10):
        seen = sizes(hypervisor)
        changed.append(sum(seen[domain.UUIDString()][1] == 3 for domain in domains))

    assert changed[-1] == len(domains)
    steps = [after - before for before, after in zip([0, *changed], changed, strict=False)]
    assert max(steps) <= 3, f"the readings are not spread: {steps}"


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
        return disk(path)

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


def test_a_thousand_domains(connect, file):
    uuids = {str(uuid4()) for _ in range(1000)}
    simulate(file, MACHINE, [domain_xml(uuid, vcpus=1, memory_mb=64) for uuid in uuids])
    hypervisor = connect(host_uri(file))

    first = hypervisor.observe()
    assert {d.uuid for d in first.domains.values() if (d.vcpus, d.memory_mb) == (1, 64)} == uuids

    second = hypervisor.observe()
    assert all(second.domains[uuid] is first.domains[uuid] for uuid in uuids)


def test_host_that_takes_long_to_open_is_available_in_the_end(connect, tmp_path):
    """The driver reads each domain of the file, which takes longer than the time-out of a call."""
    file = tmp_path / "host.xml"
    domains = [domain_xml(uid(number), vcpus=1, memory_mb=16) for number in range(1000)]
    simulate(file, MACHINE, domains)
    hypervisor = connect(host_uri(file), call_timeout=0.1)
    deadline = time.monotonic() + 300
    found = None

    while found is None and time.monotonic() < deadline:
        with contextlib.suppress(HypervisorUnavailable):
            found = hypervisor.identity()

    assert found == HostIdentity(hostname="node-1", host_uuid="")


def test_host_that_was_read_late_is_not_used_if_its_file_has_changed(connect, tmp_path):
    file = tmp_path / "host.xml"
    domains = [domain_xml(uid(number), vcpus=1, memory_mb=16) for number in range(1000)]
    simulate(file, MACHINE, domains)
    hypervisor = connect(host_uri(file), call_timeout=0.1)
    with contextlib.suppress(HypervisorUnavailable):
        hypervisor.identity()

    simulate(file, msgspec.structs.replace(MACHINE, hostname="node-2"))

    found = None
    while found is None:
        with contextlib.suppress(HypervisorUnavailable):
            found = hypervisor.identity()
    assert found.hostname == "node-2"
