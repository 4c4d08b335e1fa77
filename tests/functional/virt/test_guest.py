"""Claims in domain documents, put to libvirt itself."""

import contextlib
import itertools
from datetime import UTC, datetime

import libvirt
import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent.model.cpuset import parse_cpu_spec
from rtagent.model.guest import DomainDocument
from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_ES, MemEncryption
from rtagent.virt.libvirt.capabilities import parse_cells
from rtagent.virt.libvirt.comparison import compare
from rtagent.virt.libvirt.domain import parse_domain
from rtagent.virt.libvirt.guest import apply
from tests.support.guests import (
    FAR,
    GPU,
    combinations,
    granted,
    plain_domain,
    seats,
    with_namespaces,
)
from tests.support.numa_hosts import host, topology


@pytest.fixture(scope="module")
def test_driver():
    connection = libvirt.open("test:///default")
    yield connection
    connection.close()


def test_every_combination_of_policies_can_be_defined(test_driver, every):
    defined = 0
    for specs in itertools.islice(combinations(), 0, None, every):
        claim = granted(**specs)
        document = apply(plain_domain("test"), claim)
        domain = test_driver.defineXMLFlags(document, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
        read = DomainDocument(xml=domain.XMLDesc(), at=datetime.now(UTC))
        assert compare(claim, (), read).differences == 0, specs
        back = etree.fromstring(read.xml)
        assert pins(back) == pins(etree.fromstring(document)), specs
        domain.undefine()
        defined += 1
    assert defined > 200 // every


@pytest.mark.parametrize("specs", [{}, {"numa_nodes": "2"}, {"mem_page_size": "large"}])
def test_persistent_memory_can_be_defined(test_driver, connection, specs):
    claim = with_namespaces(granted(**specs), 4096, 512)
    for kind, driver in (("test", test_driver), ("qemu", connection)):
        document = apply(plain_domain(kind), claim)
        domain = driver.defineXMLFlags(document, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
        try:
            facts = parse_domain(domain.XMLDesc())
            assert apply(domain.XMLDesc(), claim).count("<memory model") == 2
        finally:
            domain.undefine()
        assert (facts.memory_mb, facts.excluded_kib) == (2048, (4096 + 512) * 1024)
        assert facts.confinement.given.namespaces == {"/dev/dax0.0", "/dev/dax1.0"}


@pytest.mark.parametrize("model", [AMD_SEV, AMD_SEV_ES])
def test_encrypted_memory_can_be_defined(test_driver, model):
    encryption = MemEncryption(model=model, cbitpos=51, reduced_phys_bits=1)
    claim = replace(granted(), mem_encryption=encryption)
    document = apply(plain_domain("test"), claim)
    domain = test_driver.defineXMLFlags(document, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
    try:
        assert parse_domain(domain.XMLDesc()).confinement.mem_encryption == model
        back = apply(domain.XMLDesc(), claim)
        assert apply(back, claim) == back
    finally:
        domain.undefine()


@pytest.fixture
def connection(libvirtd):
    connection = libvirt.open(libvirtd.uri)
    yield connection
    connection.close()


@pytest.mark.parametrize(
    "specs",
    [
        {"cpu_policy": "dedicated"},
        {"cpu_policy": "mixed", "cpu_dedicated_mask": "1"},
        {"numa_nodes": "1"},
    ],
    ids=",".join,
)
def test_a_real_guest_runs_on_its_assigned_cpus(connection, specs):
    claim = granted(2, 64, where=here(connection, specs), **specs)
    document = apply(plain_domain("qemu", 2, 64), claim)
    with running(connection, document) as domain:
        live = etree.fromstring(domain.XMLDesc())
        assert pins(live) == pins(etree.fromstring(document))
        for number, cpus in enumerate(domain.vcpuPinInfo()):
            (cell,) = claim.numa_topology.cells
            assert {cpu for cpu, on in enumerate(cpus) if on} == cell.pcpus_of(number)
        emulator = {cpu for cpu, on in enumerate(domain.emulatorPinInfo()) if on}
        assert emulator == claim.numa_topology.emulator_pcpus


def test_memory_of_a_real_guest_is_in_a_file(connection):
    there = host(here(connection, {}).topology, file_backed_memory_mb=128)
    document = apply(plain_domain("qemu", 1, 64), granted(1, 64, where=there))
    with running(connection, document) as domain:
        backing = etree.fromstring(domain.XMLDesc()).find("memoryBacking")
    assert [(each.tag, dict(each.attrib)) for each in backing] == [
        ("source", {"type": "file"}),
        ("access", {"mode": "shared"}),
        ("allocation", {"mode": "immediate"}),
        ("discard", {}),
    ]


@contextlib.contextmanager
def running(connection, document):
    domain = connection.createXML(document, libvirt.VIR_DOMAIN_START_VALIDATE)
    try:
        yield domain
    finally:
        domain.destroy()


def here(connection, specs):
    """This machine's first cell: all CPUs are for pinning, or all shared; or, for a mixed guest,
    the first is shared."""
    cell = parse_cells(connection.getCapabilities())[0]
    cpus = sorted(cell.cpus)
    sets = {"dedicated": ",".join(map(str, cpus))}
    if specs.get("cpu_policy") == "mixed":
        sets = {"dedicated": ",".join(map(str, cpus[1:])), "shared": str(cpus[0])}
    elif "cpu_policy" not in specs:
        sets = {"shared": ",".join(map(str, cpus))}
    return host(topology(cell), **sets)


def pins(domain):
    """What a document says of places, whatever the order; libvirt may list vCPUs one by one."""
    said = []
    for element in [*domain.iterfind("cputune/*"), *domain.iterfind("numatune/*")]:
        attributes = dict(element.attrib)
        for vcpu in sorted(parse_cpu_spec(attributes.pop("vcpus", ""))) or [-1]:
            said.append((element.tag, vcpu, *sorted(attributes.items())))
    return sorted(said, key=str)


def test_a_guest_of_two_cells_sees_each_device_at_its_own(connection):
    """Defined, that is: there is nothing here to be passed through."""
    plain = plain_domain("qemu").replace(
        "<type arch='x86_64'>", "<type arch='x86_64' machine='q35'>"
    )
    claim = replace(granted(numa_nodes="2"), pci=(GPU, FAR))
    document = apply(plain, claim)
    domain = connection.defineXMLFlags(document, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
    try:
        live = domain.XMLDesc()
    finally:
        domain.undefine()
    assert seats(live) == seats(document) == {"0x08": (0, 0), "0x88": (1, 0)}
    assert seats(apply(live, claim)) == seats(document)
    assert seats(apply(live, replace(claim, pci=(FAR,)))) == {"0x88": (1, 0)}
