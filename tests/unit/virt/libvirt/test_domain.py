"""What a domain's document says."""

import pytest
from msgspec.structs import replace

from rtagent.virt.libvirt.domain import UNREADABLE, parse_domain


def document(memory="<memory unit='KiB'>524288</memory>", vcpu="<vcpu>2</vcpu>", devices=""):
    return f"<domain type='qemu'><name>a</name>{memory}{vcpu}<devices>{devices}</devices></domain>"


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        # An inflated balloon does not reduce it.
        ("<memory>524288</memory><currentMemory>262144</currentMemory>", 512),
        ("<memory unit='KiB'>524289</memory>", 513),
        ("<memory unit='b'>1</memory>", 1),
        ("<memory unit='bytes'>1048576</memory>", 1),
        ("<memory unit='G'>2</memory>", 2048),
        ("<memory unit='MB'>1</memory>", 1),
        ("<memory unit='GB'>2</memory>", 1908),
        ("<memory> 1024 </memory>", 1),
        ("<memory unit='mib'>3</memory>", 3),
        ("<memory unit='BYTE'>1048576</memory>", 1),
        ("<cpu><numa><cell memory='2' unit='MiB'/><cell memory='1024'/></numa></cpu>", 3),
    ],
)
def test_memory_is_in_mb_rounded_up(memory, expected):
    assert parse_domain(document(memory=memory)).memory_mb == expected


@pytest.mark.parametrize(
    ("model", "source", "expected"),
    [("dimm", "", 512), ("virtio-pmem", "<path>/images/pmem</path>", 384), ("sgx-epc", "", 384)],
)
def test_memory_devices_that_have_no_memory_of_the_host_do_not_count(model, source, expected):
    size = "<target><size unit='MiB'>128</size></target>"
    device = f"<memory model='{model}'><source>{source}</source>{size}</memory>"
    facts = parse_domain(document(devices=device))
    assert (facts.memory_mb, facts.excluded_kib) == (expected, (512 - expected) * 1024)


@pytest.mark.parametrize(("vcpu", "expected"), [("<vcpu current='2'>4</vcpu>", 2), ("", 1)])
def test_vcpus_are_the_current_ones(vcpu, expected):
    assert parse_domain(document(vcpu=vcpu)).vcpus == expected


def test_only_its_own_writable_disk_files_count():
    devices = """
      <disk type='file' device='disk'><source file='/i/disk'/><target dev='vda'/></disk>
      <disk type='file'><source file='/i/second'/><target dev='vdb'/></disk>
      <disk type='file' device='cdrom'><source file='/i/iso'/><target dev='hda'/></disk>
      <disk type='file' device='disk'><source file='/i/ro'/><readonly/></disk>
      <disk type='block' device='disk'><source dev='/dev/sdb'/></disk>
      <disk type='file' device='disk'><target dev='vdc'/></disk>
    """
    assert parse_domain(document(devices=devices)).files == ("/i/disk", "/i/second")


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ("<domain", "not well-formed"),
        ("<network/>", "<network> where <domain> is expected"),
        (document(memory=""), "no <memory>"),
        (document(memory="<memory unit='furlong'>1</memory>"), "furlong"),
        (document(memory="<memory>-1</memory>"), "'-1', not a number"),
        (document(vcpu="<vcpu>many</vcpu>"), "'many', not a number"),
        (document(vcpu="<vcpu/>"), "<vcpu> is None"),
    ],
)
def test_an_invalid_document_names_the_element(odd, message):
    facts = parse_domain(odd)
    (problem,) = facts.problems
    assert message in problem
    assert None in (facts.vcpus, facts.memory_mb)


def test_entities_are_not_resolved():
    entity = "<!DOCTYPE d [<!ENTITY e SYSTEM '/etc/hostname'>]>"
    bomb = entity + document(memory="<memory>&e;</memory>")
    assert parse_domain(bomb) == replace(UNREADABLE, problems=parse_domain(bomb).problems)
