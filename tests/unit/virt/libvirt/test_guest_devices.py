"""Devices in a guest's document."""

import libvirt
import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent.model.assigned_resources import AssignedResource
from rtagent.model.device import SRIOV_PF, SRIOV_VF, STANDARD, VDPA, AssignedDevice
from rtagent.pci.mdev import mdev_uuid
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.given_devices import Given, given_devices
from rtagent.virt.libvirt.guest_devices import (
    device_elements,
    mdev_document,
    mdev_elements,
    put_devices,
)
from rtagent.virt.simulate import domain_xml
from tests.support.hosts import NODE, uid
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, vf

SCHEMAS = "/usr/share/libvirt/schemas"
GPU = AssignedDevice(
    address=GPU_0, vendor_id="10de", product_id="13f1", dev_type=STANDARD, request_id="gpu"
)
OF_A_PORT = replace(
    GPU, address=vf(3), dev_type=SRIOV_VF, source="neutron_port", requester_id="p", managed=False
)
VDPA_DEVICE = replace(OF_A_PORT, address=vf(4), dev_type=VDPA, vdpa_dev="/dev/vhost-vdpa-0")
UNIT = AssignedResource(parent_addr=GPU_1, resource_class="VGPU", identifier=f"{GPU_1}/nvidia-11/2")


def domain(*elements):
    document = etree.fromstring(domain_xml(uid(7), vcpus=1, memory_mb=64))
    document.append(etree.Element("devices"))
    document.find("devices").extend(elements)
    return etree.fromstring(etree.tostring(document))


def attributes(element, path):
    return {str(name): str(value) for name, value in element.find(path).attrib.items()}


def test_a_plain_device():
    (element,) = device_elements([GPU])
    assert attributes(element, ".") == {"mode": "subsystem", "type": "pci", "managed": "yes"}
    assert element.tag == "hostdev"
    assert attributes(element, "source/address") == {
        "domain": "0x0000",
        "bus": "0x08",
        "slot": "0x00",
        "function": "0x0",
    }


@pytest.mark.parametrize(
    ("device", "tag", "type_"),
    [
        (OF_A_PORT, "interface", "hostdev"),
        # not for a port: a plain device, as a flavor's alias asks for it
        (replace(OF_A_PORT, source="flavor_alias"), "hostdev", "pci"),
        # a physical function cannot be given the address of a port
        (replace(OF_A_PORT, address=PF_0, dev_type=SRIOV_PF), "hostdev", "pci"),
        (VDPA_DEVICE, "interface", "vdpa"),
    ],
)
def test_the_element_depends_on_the_kind_of_device(device, tag, type_):
    (element,) = device_elements([device])
    assert (element.tag, element.get("type")) == (tag, type_)
    assert element.get("managed") == (None if type_ == "vdpa" else "no")


def test_a_mediated_device():
    (element,) = mdev_elements(NODE.uuid, [UNIT])
    assert element.get("type") == "mdev"
    assert attributes(element, "source/address") == {"uuid": mdev_uuid(NODE.uuid, UNIT.identifier)}

    document = etree.fromstring(etree.tostring(mdev_document(NODE.uuid, UNIT)))
    etree.RelaxNG(etree.parse(f"{SCHEMAS}/nodedev.rng")).assertValid(document)
    assert document.findtext("parent") == "pci_0000_88_00_0"
    assert document.findtext("capability/uuid") == mdev_uuid(NODE.uuid, UNIT.identifier)
    assert document.find("capability/type").get("id") == "nvidia-11"


def test_each_unit_of_each_node_has_a_uuid_of_its_own():
    other = replace(UNIT, identifier=f"{GPU_1}/nvidia-11/3")
    ids = [
        mdev_uuid(node, unit.identifier) for node in (NODE.uuid, uid(9)) for unit in (UNIT, other)
    ]
    assert len(set(ids)) == 4
    assert ids[0] == mdev_uuid(NODE.uuid, UNIT.identifier)


ALL = [GPU, replace(GPU, address=GPU_1, managed=False), OF_A_PORT, VDPA_DEVICE]


@pytest.mark.parametrize("devices", [[], ALL[:1], ALL[:2], ALL[2:], ALL])
def test_the_document_follows_libvirts_schema(devices):
    document = domain(*device_elements(devices), *mdev_elements(NODE.uuid, [UNIT]))
    etree.RelaxNG(etree.parse(f"{SCHEMAS}/domain.rng")).assertValid(document)


def test_assigned_devices_are_read_back_from_libvirts_document():
    document = domain(*device_elements(ALL[:3]))
    connection = libvirt.open("test:///default")
    try:
        shown = connection.defineXML(etree.tostring(document, encoding="unicode")).XMLDesc(0)
    finally:
        connection.close()
    assert given_devices(etree.fromstring(shown)).addresses == {GPU_0, GPU_1, vf(3)}


def test_every_kind_of_assignment_is_parsed():
    document = domain(*device_elements(ALL), *mdev_elements(NODE.uuid, [UNIT]))
    assert given_devices(document) == Given(
        addresses=frozenset({GPU_0, GPU_1, vf(3)}),
        mdevs=frozenset({mdev_uuid(NODE.uuid, UNIT.identifier)}),
        vdpas=frozenset({"/dev/vhost-vdpa-0"}),
    )
    assert given_devices(domain()) == Given()


@pytest.mark.parametrize(
    ("device", "given"),
    [
        (OF_A_PORT, Given(addresses=frozenset({vf(3)}))),
        (VDPA_DEVICE, Given(vdpas=frozenset({"/dev/vhost-vdpa-0"}))),
    ],
)
def test_an_interface_may_be_the_only_device(device, given):
    assert given_devices(domain(*device_elements([device]))) == given


def test_a_document_assigns_exactly_the_claims_devices():
    others = [
        etree.fromstring("<interface type='network'><source network='default'/></interface>"),
        etree.fromstring("<hostdev mode='subsystem' type='usb'><source/></hostdev>"),
    ]
    document = domain(*others, *device_elements(ALL), *mdev_elements(NODE.uuid, [UNIT]))
    interface = document.find("devices/interface[@type='hostdev']")
    interface.append(etree.fromstring("<mac address='52:54:00:00:00:01'/>"))
    wanted = [replace(GPU, address=GPU_1), replace(OF_A_PORT, managed=True)]

    for _ in range(2):
        put_devices(document, device_elements(wanted))
        assert given_devices(document) == Given(addresses=frozenset({GPU_1, vf(3)}))
        tags = [(each.tag, each.get("type")) for each in document.find("devices")]
        assert tags == [
            ("interface", "network"),
            ("hostdev", "usb"),
            ("hostdev", "pci"),
            ("interface", "hostdev"),
        ]
        assert document.find("devices/interface/mac").get("address") == "52:54:00:00:00:01"
        assert {each.get("managed") for each in document.find("devices")[2:]} == {"yes"}

    put_devices(document, [])
    assert given_devices(document) == Given()
    assert len(document.find("devices")) == 2


def test_devices_are_added_to_a_document_without_any():
    bare = etree.fromstring(domain_xml(uid(7), vcpus=1, memory_mb=64))
    put_devices(bare, [])
    assert bare.find("devices") is None
    put_devices(bare, device_elements([GPU]))
    assert given_devices(bare).addresses == {GPU_0}


def test_an_invalid_address_is_named():
    odd = etree.fromstring(
        "<hostdev mode='subsystem' type='pci'><source>"
        "<address domain='0x0000' bus='0x100' slot='0x00' function='0x0'/></source></hostdev>"
    )
    with pytest.raises(BadDocument, match="address of a device: bus"):
        given_devices(domain(odd))
