"""Claims in domain documents."""

import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent.model.claim import ATTACH
from rtagent.pci.mdev import mdev_uuid
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.guest import apply, children, node_devices
from tests.support.guests import GPU, SCHEMA, VGPU, WHERE, granted, plain_domain
from tests.support.hosts import NODE
from tests.support.numa_hosts import host


def applied(domain=None, **specs):
    document = etree.fromstring(apply(domain or plain_domain(), granted(**specs)))
    SCHEMA.assertValid(document)
    return document


def inner(domain, tag):
    return [(child.tag, dict(child.attrib)) for child in domain.iterfind(f"{tag}/*")]


def test_a_guest_floats_on_all_cpus_without_a_shared_set():
    assert applied(where=host()).find("vcpu").get("cpuset") is None


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


def test_the_operators_realtime_priority():
    where = host(WHERE.topology, "4-15", "0-3", realtime_scheduler_priority=7)
    realtime = {"cpu_realtime": "yes", "cpu_realtime_mask": "^0"}
    domain = applied(where=where, cpu_policy="dedicated", **realtime)
    assert domain.find("cputune/vcpusched").get("priority") == "7"


IN_FILES = replace(WHERE, policy=replace(WHERE.policy, file_backed_memory_mb=65536))
FILE = [
    ("source", {"type": "file"}),
    ("access", {"mode": "shared"}),
    ("allocation", {"mode": "immediate"}),
    ("discard", {}),
]


def test_memory_is_in_a_file_until_the_guest_comes_to_a_host_without():
    memfd = "<memoryBacking><source type='memfd'/></memoryBacking>"
    claim = granted(where=IN_FILES)
    once = apply(plain_domain().replace("<vcpu>", f"{memfd}<vcpu>"), claim)
    assert apply(once, claim) == once
    assert inner(etree.fromstring(once), "memoryBacking") == FILE
    assert applied(once).find("memoryBacking") is None


def test_memory_in_a_file_of_a_realtime_guest():
    realtime = {"cpu_realtime": "yes", "cpu_realtime_mask": "^0"}
    domain = applied(where=IN_FILES, cpu_policy="dedicated", **realtime)
    assert inner(domain, "memoryBacking") == [("nosharepages", {}), ("locked", {}), *FILE]


def test_cells_and_locked_memory():
    domain = applied(numa_nodes="2", mem_page_size="2MB", locked_memory="yes", memory_mb=1024)
    same = {"memory": "512", "unit": "MiB", "memAccess": "shared"}
    cells = [{"id": str(n), "cpus": cpus, **same} for n, cpus in enumerate(("0-1", "2-3"))]
    assert inner(domain, "cpu/numa") == [("cell", cell) for cell in cells]
    assert [child.tag for child in domain.find("memoryBacking")] == ["hugepages", "locked"]


def test_guest_cells_are_numbered_from_zero():
    domain = applied(where=host(WHERE.topology, "16-31"), cpu_policy="dedicated")
    bound = {"cellid": "0", "mode": "strict", "nodeset": "1"}
    assert inner(domain, "numatune")[1] == ("memnode", bound)
    assert domain.find("cpu/numa/cell").get("id") == "0"


def test_the_smallest_pages_need_no_hugepages_element():
    domain = applied(mem_page_size="small")
    assert domain.find("memoryBacking") is None
    assert domain.find("cpu/numa/cell").get("memAccess") is None


def test_cells_of_several_page_sizes():
    pages = {0: {1048576: 1}, 1: {1048576: 2}}
    mixed = host(WHERE.topology, shared="0-3,16-19", reserved_huge_pages=pages)
    domain = applied(where=mixed, numa_nodes="2", mem_page_size="any")
    sizes = {"2048": "1", "1048576": "0"}
    shown = [{"size": size, "unit": "KiB", "nodeset": cell} for size, cell in sizes.items()]
    assert inner(domain, "memoryBacking/hugepages") == [("page", page) for page in shown]


def test_all_memory_is_shared_if_one_cell_has_large_pages():
    pages = {1: {2048: 1024, 1048576: 2}}
    mixed = host(WHERE.topology, shared="0-3,16-19", reserved_huge_pages=pages)
    domain = applied(where=mixed, numa_nodes="2", mem_page_size="any")
    (page,) = domain.findall("memoryBacking/hugepages/page")
    assert page.get("nodeset") == "0"
    access = [cell.get("memAccess") for cell in domain.iterfind("cpu/numa/cell")]
    assert access == ["shared", "shared"]


CALLERS = """
<domain type='kvm'>
  <name>guest</name>
  <memory unit='MiB'>2048</memory>
  <memoryBacking><hugepages/><access mode='shared'/><source type='memfd'/></memoryBacking>
  <vcpu placement='static' cpuset='9'>2</vcpu>
  <cputune><shares>2048</shares><vcpupin vcpu='0' cpuset='9'/></cputune>
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


def test_conflicting_elements_of_the_caller_are_replaced_and_others_stay():
    domain = applied(CALLERS)
    assert domain.findtext("vcpu") == "4"
    assert [child.tag for child in domain.find("cputune")] == ["shares"]
    assert domain.find("numatune") is None
    assert [child.tag for child in domain.find("memoryBacking")] == ["access", "source"]
    assert domain.find("cpu").get("mode") == "host-passthrough"
    assert sorted(child.tag for child in domain.find("cpu")) == ["feature", "topology"]


def test_arguments_of_qemu_stay_even_if_it_is_unknown_which_device_they_name():
    argument = "<qemu:arg value='vfio-pci,host=nothing'/></qemu:commandline>"
    schema = "http://libvirt.org/schemas/domain/qemu/1.0"
    line = f"<qemu:commandline xmlns:qemu='{schema}'>{argument}</domain>"
    text = plain_domain().replace("</domain>", line)
    assert "vfio-pci,host=nothing" in apply(text, granted())


def test_another_claim_replaces_the_first():
    first = granted(cpu_policy="dedicated", numa_nodes="2", mem_page_size="2MB", memory_mb=1024)
    assert apply(apply(plain_domain(), first), granted()) == apply(plain_domain(), granted())


@pytest.mark.parametrize("document", ["<network/>", "<domain>"])
def test_a_document_that_is_not_a_domain_is_refused(document):
    with pytest.raises(BadDocument):
        apply(document, granted())


def test_an_attach_claim_has_only_device_children():
    claim = replace(granted(), pci=(GPU,))
    (child,) = children(replace(claim, kind=ATTACH))
    assert (child.tag, len(child)) == ("devices", 1)
    assert [each.tag for each in children(claim)][-1] == "devices"


def test_documents_of_mediated_devices_are_returned_for_creation():
    (document,) = node_devices(replace(granted(), resources=(VGPU,)))
    assert mdev_uuid(NODE.uuid, VGPU.identifier) in document
    assert node_devices(replace(granted(), pci=(GPU,))) == ()
