"""Simulated hosts, written and edited."""

from concurrent.futures import ThreadPoolExecutor

import libvirt
import pytest

from rtagent.virt.simulate import Machine, SimulationError, domain_xml, edit, host_uri, simulate

A = "00000000-0000-0000-0000-00000000000a"
B = "00000000-0000-0000-0000-00000000000b"
WITHOUT_OS = f"<domain type='test'><name>b</name><uuid>{B}</uuid></domain>"
SMALL = Machine(sockets=1, cores=2, threads=1, memory_mb=1024)
DEVICE = """
<device>
  <name>pci_0000_08_00_0</name>
  <capability type='pci'>
    <domain>0</domain><bus>8</bus><slot>0</slot><function>0</function>
    <product id='0x1bb1'/><vendor id='0x10de'/>
  </capability>
</device>
"""


@pytest.fixture
def file(tmp_path):
    simulate(tmp_path / "host.xml", SMALL)
    return tmp_path / "host.xml"


def domains(file):
    """What libvirt finds in it: uuid -> (running, vcpus, KiB)."""
    connection = libvirt.open(host_uri(file))
    every = connection.listAllDomains()
    found = {d.UUIDString(): (d.isActive(), d.info()[3], d.info()[1]) for d in every}
    connection.close()
    return found


def test_domains_are_running_or_defined(tmp_path):
    file = tmp_path / "host.xml"
    running = domain_xml(A, vcpus=2, memory_mb=512)
    defined = domain_xml(B, vcpus=1, memory_mb=33, active=False)
    simulate(file, SMALL, [running, defined])
    assert domains(file) == {A: (1, 2, 512 * 1024), B: (0, 1, 33 * 1024)}


@pytest.mark.parametrize(
    ("verb", "argument", "message"),
    [
        ("add_domain", "<domain", "the domain document is not well-formed"),
        ("add_domain", DEVICE, "is a <device>, not a <domain>"),
        ("add_domain", "<domain type='kvm'/>", "'kvm': a simulated host runs <domain type='test'>"),
        ("add_domain", "<domain type='test'/>", "no <name>: add one"),
        ("add_domain", "<domain type='test'><name>a</name></domain>", "no <uuid>"),
        ("add_domain", domain_xml("u", vcpus=1, memory_mb=1), "'u' is not a uuid"),
        ("add_domain", domain_xml(A, vcpus=1, memory_mb=1), f"{A} exists already"),
        ("add_domain", domain_xml(B, vcpus=1, memory_mb=1, name=A), "exists already: rename"),
        ("add_domain", WITHOUT_OS, "libvirt rejects it: .*os <type>"),
        ("remove_domain", B, f"no domain has the uuid {B}: there are {A}"),
        ("remove_domain", "x", "'x' is not a uuid"),
        ("add_device", "<device/>", "no <name>"),
        ("add_device", DEVICE, "named 'pci_0000_08_00_0' exists already"),
        ("remove_device", "pci_0", "no device is named 'pci_0': there are pci_0000_08_00_0"),
    ],
)
def test_an_invalid_change_is_refused_and_changes_nothing(file, verb, argument, message):
    with edit(file) as world:
        world.add_domain(domain_xml(A, vcpus=1, memory_mb=64))
        world.add_device(DEVICE)
    before, there = file.read_bytes(), sorted(file.parent.iterdir())

    with pytest.raises(SimulationError, match=f"{file}: .*{message}"), edit(file) as world:
        getattr(world, verb)(argument)

    assert file.read_bytes() == before
    assert sorted(file.parent.iterdir()) == there


def test_a_missing_file_is_created_by_a_command(tmp_path):
    with pytest.raises(SimulationError, match="create the host with"), edit(tmp_path / "host.xml"):
        pass
    file = tmp_path / "missing" / "host.xml"
    with pytest.raises(SimulationError, match=f"^{file}: No such file or directory$"):
        simulate(file, Machine())


@pytest.mark.parametrize(
    ("content", "message"), [("<node", "not well-formed"), ("<domain/>", "<domain>, not <node>")]
)
def test_a_file_that_is_not_a_host_file_is_not_edited(file, content, message):
    file.write_text(content)
    with pytest.raises(SimulationError, match=f"{file}: .*{message}"), edit(file):
        pass


def test_concurrent_edits_lose_nothing(file):
    uuids = [f"00000000-0000-0000-0000-{number:012x}" for number in range(16)]

    def add(uuid):
        with edit(file) as world:
            world.add_domain(domain_xml(uuid, vcpus=1, memory_mb=1))

    with ThreadPoolExecutor(len(uuids)) as pool:
        list(pool.map(add, uuids))
    assert sorted(domains(file)) == uuids
