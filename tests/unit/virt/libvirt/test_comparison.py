"""The guest of a claim beside its domain."""

from datetime import UTC, datetime

import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent.model.claim import ATTACH
from rtagent.model.device import STANDARD, AssignedDevice
from rtagent.model.guest import DomainDocument, GuestComparison, LineMark
from rtagent.virt.libvirt.comparison import MAX_LINES, compare
from rtagent.virt.libvirt.guest import apply
from tests.support.guests import applied, combinations, granted, plain_domain
from tests.support.pci_hosts import GPU_0, GPU_IDS

GPU = AssignedDevice(address=GPU_0, dev_type=STANDARD, request_id="gpu", **GPU_IDS)


def document(xml: str) -> DomainDocument:
    return DomainDocument(xml=xml, at=datetime(2030, 1, 1, tzinfo=UTC))


def marked(comparison: GuestComparison) -> list[tuple[str, str, str]]:
    return [
        (str(each.mark), each.claim.strip(), each.domain.strip())
        for each in comparison.lines
        if each.mark != LineMark.SAME
    ]


def test_a_valid_domain_that_was_made_of_its_claim_does_not_differ():
    claims = [granted(**specs) for specs in combinations()]
    assert len(claims) > 200
    for claim in claims:
        comparison = compare(claim, (), document(applied(claim)))
        assert (comparison.differences, comparison.problem) == (0, ""), claim.flavor.extra_specs


def test_another_pin_is_marked_in_its_line():
    claim = granted(cpu_policy="dedicated", vcpus=2)
    xml = apply(plain_domain(), claim).replace('cpuset="5"', 'cpuset="9"')
    assert marked(compare(claim, (), document(xml))) == [
        ("different", '<vcpupin cpuset="5" vcpu="1"/>', '<vcpupin cpuset="9" vcpu="1"/>')
    ]


def test_order_and_units_are_no_differences():
    claim = granted(cpu_policy="dedicated", vcpus=2, numa_nodes="2")
    domain = etree.fromstring(apply(plain_domain(), claim))
    for tune in domain.iterfind("cputune"):
        tune[:] = list(reversed(tune))
    for cell in domain.iterfind("cpu/numa/cell"):
        cell.set("memory", str(int(cell.get("memory")) * 1024))
        cell.set("unit", "KiB")
    domain.remove(domain.find("memory"))
    etree.SubElement(domain, "memory", unit="GiB").text = "2"
    assert compare(claim, (), document(etree.tostring(domain, encoding="unicode"))).differences == 0


def test_pages_of_each_cell_are_those_of_all():
    claim = granted(numa_nodes="2", mem_page_size="2MB")
    domain = etree.fromstring(apply(plain_domain(), claim))
    for pages in domain.iterfind("memoryBacking/hugepages"):
        size = {"size": "2048", "unit": "KiB"}
        pages[:] = [etree.Element("page", size, nodeset=cell) for cell in ("0", "1")]
    comparison = compare(claim, (), document(etree.tostring(domain, encoding="unicode")))
    assert (marked(comparison), comparison.problem) == ([], "")


@pytest.mark.parametrize(("unpinned", "different"), [(0, False), (1, True)])
def test_cpus_of_threads_without_a_pin_matter_if_there_are_some(unpinned: int, different: bool):
    claim = granted(cpu_policy="dedicated", vcpus=2)
    domain = etree.fromstring(apply(plain_domain(), claim))
    del domain.find("vcpu").attrib["cpuset"]
    etree.SubElement(domain, "iothreads").text = str(1 + unpinned)
    cpuset = domain.find("cputune/emulatorpin").get("cpuset")
    etree.SubElement(domain.find("cputune"), "iothreadpin", iothread="1", cpuset=cpuset)
    comparison = compare(claim, (), document(etree.tostring(domain, encoding="unicode")))
    assert (comparison.differences > 0, comparison.problem) == (different, "")


def test_a_device_that_only_one_side_has_is_marked_there():
    claim = granted()
    with_gpu = replace(claim, pci=(GPU,))
    bare = compare(with_gpu, (), document(apply(plain_domain(), claim)))
    assert {mark for mark, _, _ in marked(bare)} == {"only-claim"}
    assert any("<hostdev" in line for _, line, _ in marked(bare))
    extra = compare(claim, (), document(apply(plain_domain(), with_gpu)))
    assert {mark for mark, _, _ in marked(extra)} == {"only-domain"}


def test_a_device_behind_a_disk_is_the_claims():
    with_gpu = replace(granted(), pci=(GPU,))
    disk = (
        "<disk type='nvme' device='disk'><source type='pci' managed='yes' namespace='1'>"
        "<address domain='0x0000' bus='0x08' slot='0x00' function='0x0'/></source>"
        "<target dev='vdb' bus='virtio'/></disk>"
    )
    xml = apply(plain_domain().replace("</devices>", f"{disk}</devices>"), with_gpu)
    found = compare(with_gpu, (), document(xml))
    assert found.differences == 0
    assert any("<disk" in line.domain for line in found.lines)
    assert "<hostdev" not in xml
    assert {mark for mark, _, _ in marked(compare(granted(), (), document(xml)))} == {"only-domain"}


def test_devices_of_attach_claims_belong_to_the_guest():
    claim, attached = granted(), replace(granted(), pci=(GPU,), kind=ATTACH)
    xml = apply(plain_domain(), claim, [attached])
    assert compare(claim, [attached], document(xml)).differences == 0
    alone = compare(claim, [attached], None)
    assert any("<hostdev" in line.claim for line in alone.lines)


def test_other_memory_is_marked():
    claim = granted(memory_mb=2048)
    domain = etree.fromstring(apply(plain_domain(), claim))
    domain.find("memory").text = str(1024 * 1024)
    domain.find("memory").set("unit", "KiB")
    found = compare(claim, (), document(etree.tostring(domain, encoding="unicode")))
    assert found.differences == 1
    [(mark, ours, theirs)] = marked(found)
    assert mark == "different" and "2097152" in ours and "1048576" in theirs


@pytest.mark.parametrize(
    "xml", ["", "<domain", "<network/>", "<domain><memory unit='x'>1</memory></domain>",
            "<!DOCTYPE d [<!ENTITY a 'b'>]><domain>&a;</domain>",
            "<domain><memory>" + "9" * 6000 + "</memory></domain>"],
)  # fmt: skip
def test_a_document_that_cannot_be_compared_is_named_as_such(xml):
    found = compare(granted(), (), document(xml))
    assert "cannot be compared" in found.problem
    assert found.lines and all(line.mark == LineMark.SAME for line in found.lines)


def test_a_document_of_any_length_takes_no_long_time():
    pins = "".join(f'<vcpupin vcpu="{n}" cpuset="1"/>' for n in range(MAX_LINES + 1))
    xml = f"<domain><memory>1</memory><cputune>{pins}</cputune></domain>"
    assert "too long" in compare(granted(), (), document(xml)).problem
