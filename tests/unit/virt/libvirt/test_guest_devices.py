"""Devices in a guest's document."""

import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent.model.assignment import AssignedResource
from rtagent.model.claim import Replacement
from rtagent.model.device import SRIOV_PF, SRIOV_VF, STANDARD, VDPA, AssignedDevice
from rtagent.pci.mdev import mdev_uuid
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.given_devices import Given, element_devices, given_devices
from rtagent.virt.libvirt.guest_devices import (
    device_elements,
    mdev_document,
    mdev_elements,
    move_devices,
    put_devices,
)
from rtagent.virt.simulate import domain_xml
from tests.support.hosts import NODE, uid
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS, PF_0, vf

SCHEMAS = "/usr/share/libvirt/schemas"
GPU = AssignedDevice(address=GPU_0, dev_type=STANDARD, request_id="gpu", **GPU_IDS)
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


ALL = [GPU, replace(GPU, address=GPU_1, managed=False), OF_A_PORT, VDPA_DEVICE]


def test_a_document_assigns_exactly_the_claims_devices():
    network = "<interface type='network'><source network='default'/></interface>"
    usb = "<hostdev mode='subsystem' type='usb'><source/></hostdev>"
    others = map(etree.fromstring, (network, usb))
    document = domain(*others, *device_elements(ALL), *mdev_elements(NODE.uuid, [UNIT]))
    interface = document.find("devices/interface[@type='hostdev']")
    interface.append(etree.fromstring("<mac address='52:54:00:00:00:01'/>"))
    wanted = [replace(GPU, address=GPU_1), replace(OF_A_PORT, managed=True)]

    for _ in range(2):
        put_devices(document, device_elements(wanted))
        assert given_devices(document) == Given(addresses=frozenset({GPU_1, vf(3)}))
        tags = [(each.tag, each.get("type")) for each in document.find("devices")]
        assert tags[:2] == [("interface", "network"), ("hostdev", "usb")]
        assert tags[2:] == [("hostdev", "pci"), ("interface", "hostdev")]
        assert document.find("devices/interface/mac").get("address") == "52:54:00:00:00:01"
        assert {each.get("managed") for each in document.find("devices")[2:]} == {"yes"}

    put_devices(document, [])
    assert given_devices(document) == Given()
    assert len(document.find("devices")) == 2


NVME = replace(GPU, address="0000:60:00.0", managed=False)
MACVTAP = replace(OF_A_PORT, net_name="ens1f0v3")
AT = "<address domain='0' bus='96' slot='0' function='0'/>"
ON_NVME = f"<source type='pci' managed='yes' namespace='1'>{AT}</source>"
NVME_DISK = f"<disk type='nvme'>{ON_NVME}<target dev='vda'/></disk>"
LAYERS = f"""<disk type='file'><source file='/top'/><backingStore type='nvme'>
    <format type='raw'/>{ON_NVME}</backingStore><target dev='vda'/></disk>"""
INTERFACE = "<interface>ens1f0v3</interface>"
#: Elements that assign a device in another form than a claim does.
FORMS = [
    (NVME, NVME_DISK),
    (NVME, f"<hostdev type='pci'><source>{AT}</source><alias name='a'/></hostdev>"),
    (VDPA_DEVICE, "<disk type='vhostvdpa'><source dev='/dev/vhost-vdpa-0'/></disk>"),
    (MACVTAP, "<interface type='direct'><source dev='ens1f0v3' mode='passthrough'/></interface>"),
    (MACVTAP, f"<hostdev type='net'><source>{INTERFACE}</source></hostdev>"),
]


@pytest.mark.parametrize(("device", "text"), [*FORMS, (NVME, LAYERS)])
def test_a_device_of_the_claim_keeps_its_form(device, text):
    document = domain(etree.fromstring(text))
    for _ in range(2):
        put_devices(document, device_elements([device]), [device])
        (element,) = document.find("devices")
        before = etree.fromstring(text)
        assert (element.tag, element.get("type")) == (before.tag, before.get("type"))
        assert [child.tag for child in element] == [child.tag for child in before]


def test_disks_on_namespaces_of_one_controller_stay():
    disks = [NVME_DISK, NVME_DISK.replace("namespace='1'", "namespace='2'").replace("vda", "vdb")]
    document = domain(*map(etree.fromstring, disks))
    put_devices(document, device_elements([NVME]), [NVME])
    found = document.iterfind("devices/disk/source")
    assert [each.get("namespace") + each.get("managed") for each in found] == ["1no", "2no"]


@pytest.mark.parametrize("text", [text for _, text in FORMS])
def test_a_device_of_no_claim_is_removed_in_any_form(text):
    document = domain(etree.fromstring(text))
    put_devices(document, device_elements([GPU]), [GPU])
    assert [each.get("type") for each in document.find("devices")] == ["pci"]
    assert given_devices(document).addresses == {GPU_0}


def test_a_disk_with_an_image_on_a_device_of_no_claim_is_refused():
    with pytest.raises(BadDocument, match=r"a disk has images on 0000:60:00\.0, which the claim"):
        put_devices(domain(etree.fromstring(LAYERS)), [])


def test_another_mediated_device_takes_the_place_of_one():
    document = domain(*mdev_elements(NODE.uuid, [UNIT]))
    (element,) = document.find("devices")
    element.append(etree.fromstring("<address type='pci' slot='7'/>"))
    put_devices(document, mdev_elements(uid(9), [UNIT]))
    assert given_devices(document).mdevs == {mdev_uuid(uid(9), UNIT.identifier)}
    assert element.find("address").get("slot") == "7"


def test_a_mediated_device_of_another_model_is_replaced_by_an_element_of_its_own():
    document = domain(*mdev_elements(NODE.uuid, [UNIT]))
    document.find("devices/hostdev").set("model", "vfio-ccw")
    put_devices(document, mdev_elements(uid(9), [UNIT]))
    (element,) = document.find("devices")
    assert element.get("model") == "vfio-pci"
    assert element_devices(element).mdevs == {mdev_uuid(uid(9), UNIT.identifier)}


# Before and after a move, by purpose; an address is one of different devices on different hosts.
MOVED = tuple(
    Replacement(before=before, after=after)
    for before, after in (((GPU_0, GPU_1), (PF_0, GPU_1)), ((vf(3),), (GPU_0,)))
)


def test_devices_of_a_move_take_the_places_of_those_before_it():
    before = [GPU, replace(GPU, address=GPU_1), OF_A_PORT]
    after = [replace(GPU, address=address) for address in (PF_0, GPU_1, GPU_0)]
    document = domain(*device_elements(before))
    places = list(document.find("devices"))
    for _ in range(2):
        move_devices(document, MOVED, {PF_0, GPU_1, GPU_0})
        put_devices(document, device_elements(after), after)
        assert list(document.find("devices")) == places
        found = [element_devices(each).addresses for each in places]
        assert found == [{PF_0}, {GPU_1}, {GPU_0}]


def test_devices_are_added_to_a_document_without_any():
    bare = etree.fromstring(domain_xml(uid(7), vcpus=1, memory_mb=64))
    put_devices(bare, [])
    assert bare.find("devices") is None
    put_devices(bare, device_elements([GPU]))
    assert given_devices(bare).addresses == {GPU_0}


def test_an_invalid_address_is_named():
    odd = "<hostdev type='pci'><source><address bus='0x100'/></source></hostdev>"
    with pytest.raises(BadDocument, match="address of a device: bus"):
        given_devices(domain(etree.fromstring(odd)))
