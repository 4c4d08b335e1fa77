"""Persistent memory in domain documents."""

import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent.model.assignment import AssignedResource
from rtagent.virt.libvirt.guest import xml
from tests.support.guests import applied, granted, plain_domain, with_namespaces

MIB = 1024


def sizes(document):
    domain = etree.fromstring(document)
    return [domain.findtext(tag) for tag in ("memory", "maxMemory", "cpu/numa/cell")]


@pytest.mark.parametrize("specs", [{}, {"numa_nodes": "2"}, {"cpu_policy": "dedicated"}])
def test_a_namespace_is_an_nvdimm_of_the_first_cell(specs):
    claim = with_namespaces(granted(**specs), 4096, 512)
    domain = etree.fromstring(applied(claim))
    first, second = domain.findall("devices/memory")
    assert (first.get("model"), first.get("access")) == ("nvdimm", "shared")
    assert first.findtext("source/path") == "/dev/dax0.0"
    assert first.findtext("source/alignsize") == "2048"
    assert first.find("source/pmem") is not None
    assert first.findtext("target/size") == str(4096 * MIB)
    assert (first.findtext("target/node"), first.findtext("target/label/size")) == ("0", "2048")
    assert second.findtext("source/path") == "/dev/dax1.0"
    total = str((2048 + 4096 + 512) * MIB)
    assert domain.findtext("memory") == domain.findtext("maxMemory") == total
    assert domain.find("maxMemory").get("slots") == "2"
    cells = domain.findall("cpu/numa/cell")
    assert len(cells) == int(specs.get("numa_nodes", "1"))
    if not specs:  # libvirt requires a cell
        assert [cells[0].get(name) for name in ("cpus", "memory", "unit")] == ["0-3", "2048", "MiB"]


def test_namespaces_that_the_claim_no_longer_has_are_removed():
    both = applied(with_namespaces(granted(), 4096, 512))
    one = applied(with_namespaces(granted(), 4096), domain=both)
    assert one.count("<path>") == 1
    assert sizes(one)[:2] == [str((2048 + 4096) * MIB)] * 2
    none = etree.fromstring(applied(granted(), domain=one))
    assert none.find("devices/memory") is None and none.find("maxMemory") is None
    assert (none.findtext("memory"), none.find("cpu/numa")) == (str(2048 * MIB), None)


def test_a_namespace_of_the_claim_may_be_virtio_pmem_and_takes_the_place_of_another():
    own = """<memory model='virtio-pmem' access='shared'><source><path>/dev/dax7.0</path></source>
             <target><size unit='MiB'>4096</size></target>
             <address type='pci' domain='0' bus='0' slot='5' function='0'/></memory>"""
    plain = plain_domain().replace("</devices>", f"{own}</devices>")
    claim = with_namespaces(granted(), 4096)
    once = applied(claim, domain=plain)
    assert applied(claim, domain=once) == once
    (device,) = etree.fromstring(once).findall("devices/memory")
    assert (device.get("model"), device.findtext("source/path")) == ("virtio-pmem", "/dev/dax0.0")
    assert device.find("target/label") is None
    assert device.find("address").get("slot") == "5"


def test_the_children_have_everything_for_a_caller_that_writes_documents():
    tags = [each.tag for each in etree.fromstring(f"<d>{xml(with_namespaces(granted(), 64))}</d>")]
    assert tags == ["maxMemory", "memory", "vcpu", "cpu", "devices"]


def test_a_claim_without_details_of_its_namespace_adds_none():
    unknown = AssignedResource(resource_class="CUSTOM_PMEM", identifier="ns0")
    assert applied(replace(granted(), resources=(unknown,))) == applied(granted())
