"""The host devices that a domain's document assigns: each element of libvirt's schema that can."""

import pytest
from lxml import etree

from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.virt.libvirt.domain import parse_domain
from rtagent.virt.libvirt.given_devices import Given, assigns
from rtagent.virt.libvirt.host_facts import HostFacts

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


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (f"<hostdev mode='subsystem' type='pci'><source>{AT}</source></hostdev>", ADDRESS),
        (
            f"<interface type='hostdev' managed='yes'><source network='vfs'>{OF_PCI}</source>"
            "</interface>",
            ADDRESS,
        ),
        (
            "<hostdev mode='subsystem' type='mdev' model='vfio-pci'>"
            f"<source><address uuid='{UUID.upper()}'/></source></hostdev>",
            Given(mdevs=frozenset({UUID})),
        ),
        ("<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>", VDPA),
        (
            "<interface type='direct'><source dev='ens1f0v1' mode='passthrough'/></interface>",
            Given(interfaces=frozenset({"ens1f0v1"})),
        ),
        (
            "<hostdev mode='capabilities' type='net'><source><interface>ens1f0v1</interface>"
            "</source></hostdev>",
            Given(interfaces=frozenset({"ens1f0v1"})),
        ),
        (
            "<hostdev mode='capabilities' type='misc'><source><char>/dev/vhost-vdpa-0</char>"
            "</source></hostdev>",
            VDPA,
        ),
        (disk(NVME, "nvme"), ADDRESS),
        (disk("<source dev='/dev/vhost-vdpa-0'/>", "vhostvdpa"), VDPA),
        # Images behind an image, the destination of a copy, the data of an image.
        (
            disk("<source file='/a'/><backingStore type='file'><source file='/b'/>"
                 f"<backingStore type='nvme'>{NVME}</backingStore></backingStore>"),
            ADDRESS,
        ),
        (disk(f"<source file='/a'/><mirror type='nvme' job='copy'>{NVME}</mirror>"), ADDRESS),
        (
            disk(f"<source file='/a'><dataStore type='nvme'>{NVME}</dataStore></source>"),
            ADDRESS,
        ),
        (
            "<memory model='nvdimm'><source><path>/dev/dax0.0</path></source>"
            "<target><size unit='KiB'>1</size></target></memory>",
            Given(namespaces=frozenset({"/dev/dax0.0"})),
        ),
    ],
)  # fmt: skip
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
        (f"vfio-pci,sysfsdev=/sys/devices/0000:60:00.0/{UUID}", Given(mdevs=frozenset({UUID}))),
        ("vhost-vdpa,vhostdev=/dev/vhost-vdpa-0,id=n0", VDPA),
        ("memory-backend-file,mem-path=/dev/dax0.0", Given(namespaces=frozenset({"/dev/dax0.0"}))),
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
    line = (
        f"<q:override xmlns:q='{QEMU}'><q:device alias='hostdev0'>{device}</q:device></q:override>"
    )
    facts = parse_domain(f"<domain><memory>1</memory>{line}</domain>")
    assert (HostResource.DEVICES in facts.confinement.unknown) is unknown


def test_variables_of_the_firmware_may_be_on_an_nvme_controller():
    assert given("", f"<nvram type='nvme'>{NVME}</nvram>") == ADDRESS


@pytest.mark.parametrize(
    "element",
    [
        "<interface type='direct'><source dev='eth0' mode='bridge'/></interface>",
        "<interface type='network'><source network='vfs'/></interface>",
        "<interface type='user'><source dev='eth0'/></interface>",
        "<hostdev mode='subsystem' type='usb'><source><vendor id='0x1'/><product id='0x2'/>"
        "</source></hostdev>",
        "<hostdev mode='subsystem' type='scsi'><source><adapter name='scsi_host0'/>"
        "<address bus='0' target='0' unit='0'/></source></hostdev>",
        "<hostdev mode='capabilities' type='storage'><source><block>/dev/sdb</block></source>"
        "</hostdev>",
        "<hostdev mode='capabilities' type='misc'><source><char>/dev/input/event3</char></source>"
        "</hostdev>",
        disk("<source dev='/dev/nvme0n1'/>", "block"),
        "<tpm><backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm>",
        "<rng model='virtio'><backend model='random'>/dev/hwrng</backend></rng>",
        "<memory model='nvdimm'><source><path>/images/nvdimm</path></source>"
        "<target><size unit='KiB'>1</size></target></memory>",
    ],
)
def test_what_guests_share_or_no_claim_has_is_neither_assigned_nor_a_problem(element):
    assert given(element) == Given()
    assert not assigns(etree.fromstring(element))


def test_a_namespace_is_unknown_while_namespaces_could_never_be_listed():
    facts = parse_domain(
        "<domain><memory>1</memory><devices><memory model='nvdimm'>"
        "<source><path>/dev/dax0.0</path></source><target><size>1</size></target></memory>"
        "</devices></domain>"
    )
    for namespaces, expected in (
        ({"/dev/dax0.0": "ns0"}, Occupancy(namespaces=frozenset({"ns0"}))),
        ({"/dev/dax1.0": "ns1"}, Occupancy()),
        (None, Occupancy(unknown=frozenset({HostResource.DEVICES}))),
    ):
        assert facts.confinement.occupancy(HostFacts(namespaces=namespaces)) == expected
