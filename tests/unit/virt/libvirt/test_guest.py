"""Claims in domain documents."""

import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent.model.assignment import AssignedResource
from rtagent.model.claim import ATTACH, BUILD
from rtagent.model.device import STANDARD, AssignedDevice
from rtagent.pci.mdev import mdev_uuid
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.guest import apply, children, node_devices
from tests.support.guests import SCHEMA, WHERE, granted, plain_domain
from tests.support.hosts import NODE
from tests.support.numa_hosts import host
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS

GPU = AssignedDevice(address=GPU_0, dev_type=STANDARD, request_id="gpu", **GPU_IDS)


def applied(domain=None, **specs):
    return etree.fromstring(apply(domain or plain_domain(), granted(**specs)))


def inner(domain, tag):
    return [(child.tag, dict(child.attrib)) for child in domain.iterfind(f"{tag}/*")]


def test_a_guest_without_cells_floats():
    domain = applied()
    assert domain.findtext("vcpu") == "4"
    assert dict(domain.find("vcpu").attrib) == {"placement": "static", "cpuset": "0-3,16-19"}
    assert [domain.find(tag) for tag in ("cputune", "numatune", "memoryBacking")] == [None] * 3
    assert inner(domain, "cpu") == [("topology", {"sockets": "4", "cores": "1", "threads": "1"})]


def test_a_guest_floats_on_all_cpus_without_a_shared_set():
    domain = etree.fromstring(apply(plain_domain(), granted(where=host())))
    assert domain.find("vcpu").get("cpuset") is None


def test_dedicated_cpus():
    domain = applied(cpu_policy="dedicated", emulator_threads_policy="isolate", vcpus=3)
    assert domain.find("vcpu").get("cpuset") == "8"
    assert inner(domain, "cputune") == [
        ("vcpupin", {"vcpu": "0", "cpuset": "4"}),
        ("vcpupin", {"vcpu": "1", "cpuset": "5"}),
        ("vcpupin", {"vcpu": "2", "cpuset": "6"}),
        ("emulatorpin", {"cpuset": "8"}),
    ]


def test_mixed_cpus_and_realtime():
    domain = applied(cpu_policy="mixed", cpu_realtime="yes", cpu_realtime_mask="2-3")
    assert inner(domain, "cputune") == [
        ("vcpupin", {"vcpu": "0", "cpuset": "0-3"}),
        ("vcpupin", {"vcpu": "1", "cpuset": "0-3"}),
        ("vcpupin", {"vcpu": "2", "cpuset": "4"}),
        ("vcpupin", {"vcpu": "3", "cpuset": "5"}),
        ("emulatorpin", {"cpuset": "0-3"}),
        ("vcpusched", {"vcpus": "2-3", "scheduler": "fifo", "priority": "1"}),
    ]
    assert inner(domain, "memoryBacking") == [("nosharepages", {}), ("locked", {})]


IN_FILES = replace(WHERE, policy=replace(WHERE.policy, file_backed_memory_mb=65536))
FILE = [
    ("source", {"type": "file"}),
    ("access", {"mode": "shared"}),
    ("allocation", {"mode": "immediate"}),
    ("discard", {}),
]


@pytest.mark.parametrize("specs", [{}, {"numa_nodes": "2"}])
def test_memory_in_a_file(specs):
    claim = granted(where=IN_FILES, **specs)
    before = plain_domain().replace(
        "<vcpu>", "<memoryBacking><source type='memfd'/></memoryBacking><vcpu>"
    )
    once = apply(before, claim)
    assert apply(once, claim) == once
    SCHEMA.assertValid(etree.fromstring(once))
    assert inner(etree.fromstring(once), "memoryBacking") == FILE


def test_memory_in_a_file_of_a_realtime_guest():
    realtime = {"cpu_realtime": "yes", "cpu_realtime_mask": "^0"}
    domain = applied(where=IN_FILES, cpu_policy="dedicated", **realtime)
    assert inner(domain, "memoryBacking") == [("nosharepages", {}), ("locked", {}), *FILE]
    SCHEMA.assertValid(domain)


def test_guest_that_comes_from_a_host_with_memory_in_files_has_ordinary_memory():
    there = apply(plain_domain(), granted(where=IN_FILES))
    assert etree.fromstring(apply(there, granted())).find("memoryBacking") is None


def test_other_source_of_the_memory_is_kept():
    backing = "<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>"
    domain = applied(plain_domain().replace("<vcpu>", f"{backing}<vcpu>"))
    assert inner(domain, "memoryBacking") == [
        ("source", {"type": "memfd"}),
        ("access", {"mode": "shared"}),
    ]


def test_the_operators_realtime_priority():
    where = host(WHERE.topology, "4-15", "0-3", realtime_scheduler_priority=7)
    claim = granted(where=where, cpu_policy="dedicated", cpu_realtime="yes", cpu_realtime_mask="^0")
    domain = etree.fromstring(apply(plain_domain(), claim))
    assert domain.find("cputune/vcpusched").get("priority") == "7"


def test_cells_and_pages():
    domain = applied(numa_nodes="2", mem_page_size="2MB", locked_memory="yes", memory_mb=1024)
    assert inner(domain, "numatune") == [
        ("memory", {"mode": "strict", "nodeset": "0-1"}),
        ("memnode", {"cellid": "0", "mode": "strict", "nodeset": "0"}),
        ("memnode", {"cellid": "1", "mode": "strict", "nodeset": "1"}),
    ]
    assert inner(domain, "cpu/numa") == [
        (
            "cell",
            {"id": number, "cpus": cpus, "memory": "512", "unit": "MiB", "memAccess": "shared"},
        )
        for number, cpus in (("0", "0-1"), ("1", "2-3"))
    ]
    assert inner(domain, "memoryBacking/hugepages") == [
        ("page", {"size": "2048", "unit": "KiB", "nodeset": "0-1"})
    ]
    assert [child.tag for child in domain.find("memoryBacking")] == ["hugepages", "locked"]


def test_guest_cells_are_numbered_from_zero():
    busy = host(WHERE.topology, "16-31")
    domain = etree.fromstring(apply(plain_domain(), granted(where=busy, cpu_policy="dedicated")))
    assert inner(domain, "numatune")[1] == (
        "memnode",
        {"cellid": "0", "mode": "strict", "nodeset": "1"},
    )
    assert domain.find("cpu/numa/cell").get("id") == "0"


@pytest.mark.parametrize("size", ["small", "4"])
def test_the_smallest_pages_need_no_hugepages_element(size):
    domain = applied(mem_page_size=size)
    assert domain.find("memoryBacking") is None
    assert domain.find("cpu/numa/cell").get("memAccess") is None


def test_cells_of_several_page_sizes():
    pages = {0: {1048576: 1}, 1: {1048576: 2}}
    mixed = host(WHERE.topology, shared="0-3,16-19", reserved_huge_pages=pages)
    claim = granted(where=mixed, numa_nodes="2", mem_page_size="any")
    domain = etree.fromstring(apply(plain_domain(), claim))
    assert inner(domain, "memoryBacking/hugepages") == [
        ("page", {"size": "2048", "unit": "KiB", "nodeset": "1"}),
        ("page", {"size": "1048576", "unit": "KiB", "nodeset": "0"}),
    ]


CALLERS = """
<domain type='kvm'>
  <name>guest</name>
  <memory unit='MiB'>2048</memory>
  <memoryBacking><hugepages/><access mode='shared'/><locked/></memoryBacking>
  <vcpu placement='static' cpuset='9'>2</vcpu>
  <iothreads>1</iothreads>
  <cputune>
    <shares>2048</shares>
    <vcpupin vcpu='0' cpuset='9'/>
    <iothreadpin iothread='1' cpuset='0'/>
    <vcpusched vcpus='0' scheduler='rr' priority='3'/>
  </cputune>
  <numatune><memory mode='preferred' nodeset='1'/></numatune>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <cpu mode='host-passthrough'>
    <topology sockets='2' cores='1' threads='1'/>
    <feature policy='disable' name='vmx'/>
    <numa><cell id='0' cpus='0-1' memory='2048' unit='MiB'/></numa>
  </cpu>
  <devices/>
</domain>
"""


def test_conflicting_elements_of_the_caller_are_replaced():
    domain = applied(CALLERS)
    SCHEMA.assertValid(domain)
    assert dict(domain.find("vcpu").attrib) == {"placement": "static", "cpuset": "0-3,16-19"}
    assert domain.findtext("vcpu") == "4"
    assert [child.tag for child in domain.find("cputune")] == ["shares"]
    assert domain.find("numatune") is None
    assert [child.tag for child in domain.find("memoryBacking")] == ["access"]
    assert domain.find("cpu").get("mode") == "host-passthrough"
    assert sorted(child.tag for child in domain.find("cpu")) == ["feature", "topology"]
    assert domain.findtext("iothreads") == "1"


def test_elements_of_the_claim_join_existing_elements():
    domain = applied(CALLERS, cpu_policy="dedicated", mem_page_size="2MB", memory_mb=1024)
    SCHEMA.assertValid(domain)
    assert {child.tag for child in domain.find("cputune")} == {
        "shares",
        "iothreadpin",
        "vcpupin",
        "emulatorpin",
    }
    assert [child.tag for child in domain.find("memoryBacking")] == ["access", "hugepages"]
    assert len(domain.findall("cpu/numa/cell")) == 1


def test_other_elements_stay_unchanged():
    before, after = etree.fromstring(plain_domain()), applied()
    for tag in ("name", "uuid", "metadata", "memory", "os", "features", "on_poweroff", "devices"):
        assert canonical(before.find(tag)) == canonical(after.find(tag))


def test_arguments_of_qemu_stay_even_if_it_is_unknown_which_device_they_name():
    argument = "<qemu:arg value='vfio-pci,host=nothing'/>"
    text = plain_domain().replace(
        "</domain>",
        "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>"
        f"{argument}</qemu:commandline></domain>",
    )
    assert "vfio-pci,host=nothing" in apply(text, granted())


def canonical(element):
    return etree.canonicalize(etree.tostring(element, encoding="unicode"), strip_text=True)


def test_another_claim_replaces_the_first():
    first = granted(cpu_policy="dedicated", numa_nodes="2", mem_page_size="2MB", memory_mb=1024)
    assert apply(apply(plain_domain(), first), granted()) == apply(plain_domain(), granted())


@pytest.mark.parametrize("document", ["<network/>", "<domain>", ""])
def test_a_document_that_is_not_a_domain_is_refused(document):
    with pytest.raises(BadDocument):
        apply(document, granted())


# -- devices --------------------------------------------------------------------------------------


def given(*addresses, kind=BUILD, vgpus=0):
    """A claim of these GPUs, and of so many mediated devices of the first."""
    pci = (replace(GPU, address=address) for address in addresses)
    units = (
        AssignedResource(
            parent_addr=GPU_0, resource_class="VGPU", identifier=f"{GPU_0}/nvidia-11/{n}"
        )
        for n in range(vgpus)
    )
    named = AssignedResource(resource_class="CUSTOM_PMEM", identifier="ns0")
    return replace(granted(), kind=kind, pci=tuple(pci), resources=(*units, named))


def devices(claim, *attached, domain=None):
    """Each device of the document: its element's type, and its bus or its uuid."""
    document = etree.fromstring(apply(domain or plain_domain(), claim, attached))
    SCHEMA.assertValid(document)
    sources = document.iterfind("devices/hostdev/source/address")
    return [address.get("bus") or address.get("uuid") for address in sources]


def test_attached_devices_stay_when_their_claims_are_passed():
    first, added = given(GPU_0), given(GPU_1, kind=ATTACH)
    both = apply(plain_domain(), first, [added])
    assert devices(first, added, domain=both) == ["0x08", "0x88"]
    assert devices(first, domain=both) == ["0x08"]


def test_a_device_without_a_claim_is_removed():
    before = apply(plain_domain(), given(GPU_0, GPU_1))
    assert devices(given(GPU_1), domain=before) == ["0x88"]
    assert devices(given(), domain=before) == []


def test_an_attach_claim_has_only_device_children():
    (child,) = children(given(GPU_1, kind=ATTACH))
    assert (child.tag, len(child)) == ("devices", 1)
    assert [each.tag for each in children(given(GPU_1))][-1] == "devices"


def test_documents_of_mediated_devices_are_returned_for_creation():
    (document,) = node_devices(given(GPU_1, vgpus=1))
    assert mdev_uuid(NODE.uuid, f"{GPU_0}/nvidia-11/0") in document
    assert node_devices(given(GPU_1)) == ()
