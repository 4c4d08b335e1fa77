"""The host devices that a domain's document assigns: each element of libvirt's schema that can."""

import pytest
from lxml import etree

from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.virt.libvirt.document import HostFacts
from rtagent.virt.libvirt.domain import parse_domain
from rtagent.virt.libvirt.given_devices import Given, assigns

AT = "<address domain='0x0000' bus='0x60' slot='0x00' function='0x0'/>"
OF_PCI = AT.replace("<address", "<address type='pci'")
NVME = f"<source type='pci' managed='yes' namespace='1'>{AT}</source>"
ADDRESS = Given(addresses=frozenset({"0000:60:00.0"}))
VDPA = Given(vdpas=frozenset({"/dev/vhost-vdpa-0"}))
UUID = "4b20d080-1b54-4048-85b3-a6a62d165c01"


def disk(inner: str, of: str = "file") -> str:
    return f"<disk type='{of}' device='disk'>{inner}<target dev='vda' bus='virtio'/></disk>"


def given(devices: str, os: str = "") -> Given:
    text = f"<domain><memory>1</memory><os>{os}</os><devices>{devices}</devices></domain>"
    facts = parse_domain(text)
    assert facts.problems == ()
    return facts.confinement.given


def hostdev(of: str, source: str, mode: str = "subsystem") -> str:
    return f"<hostdev mode='{mode}' type='{of}'><source>{source}</source></hostdev>"


def interface(of: str, attributes: str, inner: str = "") -> str:
    return f"<interface type='{of}'><source {attributes}>{inner}</source></interface>"


def nvdimm(path: str) -> str:
    size = "<target><size unit='KiB'>1</size></target>"
    return f"<memory model='nvdimm'><source><path>{path}</path></source>{size}</memory>"


NIC = Given(interfaces=frozenset({"ens1f0v1"}))
PMEM = Given(namespaces=frozenset({"/dev/dax0.0"}))
MDEV = Given(mdevs=frozenset({UUID}))
BEHIND = f"<source file='/b'/><backingStore type='nvme'>{NVME}</backingStore>"


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (hostdev("pci", AT), ADDRESS),
        (interface("hostdev", "network='vfs'", OF_PCI), ADDRESS),
        (hostdev("mdev", f"<address uuid='{UUID.upper()}'/>"), MDEV),
        (interface("vdpa", "dev='/dev/vhost-vdpa-0'"), VDPA),
        (interface("direct", "dev='ens1f0v1' mode='passthrough'"), NIC),
        (hostdev("net", "<interface>ens1f0v1</interface>", "capabilities"), NIC),
        (hostdev("misc", "<char>/dev/vhost-vdpa-0</char>", "capabilities"), VDPA),
        (disk(NVME, "nvme"), ADDRESS),
        (disk("<source dev='/dev/vhost-vdpa-0'/>", "vhostvdpa"), VDPA),
        # Images behind an image, the destination of a copy, the data of an image.
        (disk(f"<source file='/a'/><backingStore type='file'>{BEHIND}</backingStore>"), ADDRESS),
        (disk(f"<source file='/a'/><mirror type='nvme' job='copy'>{NVME}</mirror>"), ADDRESS),
        (disk(f"<source file='/a'><dataStore type='nvme'>{NVME}</dataStore></source>"), ADDRESS),
        (nvdimm("/dev/dax0.0"), PMEM),
    ],
)
def test_what_an_element_assigns(devices, expected):
    assert given(devices) == expected


QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("vfio-pci,host=60:00.0,id=x,bus=pci.0,addr=0x5", ADDRESS),
        ('{"driver":"vfio-pci","host":"0000:60:00.0"}', ADDRESS),
        ("vfio-pci,sysfsdev=/sys/bus/pci/devices/0000:60:00.0", ADDRESS),
        ("file=nvme://0000:60:00.0/1,if=none", ADDRESS),
        (f"vfio-pci,host=60:00.0,vf-token={UUID}", ADDRESS),
        (f"vfio-pci,sysfsdev=/sys/devices/0000:60:00.0/{UUID}", MDEV),
        ("vhost-vdpa,vhostdev=/dev/vhost-vdpa-0,id=n0", VDPA),
        ("memory-backend-file,mem-path=/dev/dax0.0", PMEM),
        ("virtio-net-pci,netdev=n0,addr=05.0", Given()),
    ],
)  # fmt: skip
def test_what_an_argument_of_qemu_assigns(argument, expected):
    line = f"<q:commandline xmlns:q='{QEMU}'><q:arg value='{argument}'/></q:commandline>"
    facts = parse_domain(f"<domain><memory>1</memory>{line}</domain>")
    assert (facts.confinement.given, facts.problems) == (expected, ())


def test_an_argument_whose_device_is_not_named_makes_the_devices_unknown():
    line = f"<q:commandline xmlns:q='{QEMU}'><q:arg value='vfio-pci,fd=7'/></q:commandline>"
    facts = parse_domain(f"<domain><memory>1</memory>{line}</domain>")
    assert facts.confinement.unknown == {HostResource.DEVICES}
    assert "'vfio-pci,fd=7'" in facts.problems[0]


@pytest.mark.parametrize(
    ("own", "kinds"),
    [
        ("<q:arg value='-mem-path'/><q:arg value='/dev/hugepages'/>", "pages"),
        ("<q:arg value='memory-backend-memfd,size=1G,hugetlb=on'/>", "pages"),
        ("<q:arg value='memory-backend-ram,size=1G,host-nodes=1,policy=bind'/>", "cells"),
        ("<q:arg value='memory-backend-ram,size=1G'/>", ""),
    ],
)
def test_memory_that_an_argument_of_qemu_may_take_is_unknown(own, kinds):
    line = f"<q:commandline xmlns:q='{QEMU}'>{own}</q:commandline>"
    facts = parse_domain(f"<domain><memory>1</memory>{line}</domain>")
    assert facts.confinement.unknown == set(kinds.split())
    assert len(facts.problems) == len(kinds.split())


@pytest.mark.parametrize(("name", "unknown"), [("host", True), ("x-pci-vendor-id", False)])
def test_another_host_device_of_an_override_is_unknown(name, unknown):
    device = f"<q:frontend><q:property name='{name}' type='string' value='60:00.0'/></q:frontend>"
    alias = f"<q:device alias='hostdev0'>{device}</q:device>"
    line = f"<q:override xmlns:q='{QEMU}'>{alias}</q:override>"
    facts = parse_domain(f"<domain><memory>1</memory>{line}</domain>")
    assert (HostResource.DEVICES in facts.confinement.unknown) is unknown


def test_variables_of_the_firmware_may_be_on_an_nvme_controller():
    assert given("", f"<nvram type='nvme'>{NVME}</nvram>") == ADDRESS


@pytest.mark.parametrize(
    "element",
    [
        interface("direct", "dev='eth0' mode='bridge'"),
        interface("network", "network='vfs'"),
        interface("user", "dev='eth0'"),
        hostdev("usb", "<vendor id='0x1'/><product id='0x2'/>"),
        hostdev("scsi", "<adapter name='scsi_host0'/><address bus='0' target='0' unit='0'/>"),
        hostdev("storage", "<block>/dev/sdb</block>", "capabilities"),
        hostdev("misc", "<char>/dev/input/event3</char>", "capabilities"),
        disk("<source dev='/dev/nvme0n1'/>", "block"),
        "<tpm><backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm>",
        "<rng model='virtio'><backend model='random'>/dev/hwrng</backend></rng>",
        nvdimm("/images/nvdimm"),
    ],
)
def test_what_guests_share_or_no_claim_has_is_neither_assigned_nor_a_problem(element):
    assert given(element) == Given()
    assert not assigns(etree.fromstring(element))


def test_a_namespace_is_unknown_while_namespaces_could_never_be_listed():
    devices = f"<devices>{nvdimm('/dev/dax0.0')}</devices>"
    facts = parse_domain(f"<domain><memory>1</memory>{devices}</domain>")
    for namespaces, expected in (
        ({"/dev/dax0.0": "ns0"}, Occupancy(namespaces=frozenset({"ns0"}))),
        ({"/dev/dax1.0": "ns1"}, Occupancy()),
        (None, Occupancy(unknown=frozenset({HostResource.DEVICES}))),
    ):
        assert facts.confinement.occupancy(HostFacts(namespaces=namespaces)) == expected
