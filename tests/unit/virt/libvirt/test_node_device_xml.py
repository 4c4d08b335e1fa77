"""Documents of node devices."""

import pytest

from rtagent.model.device import SRIOV_PF, SRIOV_VF, STANDARD, VDPA, Device, Mdev, MdevType
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.node_device_xml import (
    devices,
    doubtful_interfaces,
    mdevs,
    parse_node_device,
    root_ports,
    vdpas,
)
from tests.support.node_devices import bridge, gpu, mdev, net, pci, pci_name, vdpa

VF_ADDRESS = "><address bus='0x20' slot='0x02' function='0x0'/></capability>"


def parsed(*documents):
    found = [parse_node_device(document) for document in documents]
    return {node.name: node for node in found if node is not None}


def the_only(*documents):
    (device,) = devices(parsed(*documents))
    return device


def test_a_plain_device():
    document = pci("0000:08:00.0", "10de", "13f1", more="<iommuGroup number='7'/><numa node='1'/>")
    ids = {"vendor_id": "10de", "product_id": "13f1", "dev_type": STANDARD}
    assert the_only(document) == Device(address="0000:08:00.0", numa_node=1, iommu_group=7, **ids)


def test_functions_of_a_network_card():
    pf, vf = (
        pci(
            "0000:20:00.0",
            "15b3",
            "a2d6",
            more="<capability type='virt_functions' maxCount='8'/>"
            "<capability type='vpd'><name>BlueField</name><fields access='readonly'>"
            "<serial_number>MT2113X00000</serial_number></fields></capability>",
        ),
        pci("0000:20:02.3", "15b3", "101e", pf="0000:20:00.0"),
    )
    nodes = parsed(vf, pf, net("p20", "AA:BB:CC:00:11:22", "pci_0000_20_00_0"))
    first, second = devices(nodes)
    assert (first.dev_type, first.net_name, first.mac) == (SRIOV_PF, "p20", "aa:bb:cc:00:11:22")
    assert first.capabilities == {"network": ("rx", "tx")}
    assert (second.dev_type, second.parent_addr) == (SRIOV_VF, "0000:20:00.0")
    assert (second.parent_ifname, second.net_name) == ("p20", None)
    # a virtual function is on its physical function's card
    assert first.card_serial_number == second.card_serial_number == "MT2113X00000"


@pytest.mark.parametrize(
    ("functions", "dev_type"),
    [(" maxCount='0'/>", STANDARD), (" maxCount='1'/>", SRIOV_PF), (VF_ADDRESS, SRIOV_PF)],
)
def test_a_device_with_virtual_functions_is_a_physical_function(functions, dev_type):
    capability = f"<capability type='virt_functions'{functions}"
    assert the_only(pci("0000:20:00.0", more=capability)).dev_type == dev_type


PF, BURNT, RANDOM = "0000:03:00.0", "b8:3f:d2:00:00:01", "4a:00:00:00:00:11"


def switch(*interfaces):
    """Return a physical function with interfaces, in another order than that of their names."""
    nets = (net(name, mac, pci_name(PF)) for name, mac in reversed(interfaces))
    return parsed(pci(PF, more="<capability type='virt_functions' maxCount='8'/>"), *nets)


@pytest.mark.parametrize("mac", [BURNT, RANDOM, None])
@pytest.mark.parametrize(
    ("own", "representors"),
    [
        ("ens1f0", ("ens1f0_0", "ens1f0_1")),
        ("ens1f0", ("eth0", "eth1")),
        ("p0", ("pf0hpf", "pf0vf0", "en3f0pf0sf0")),
        ("enp3s0f0np0", ("enp3s0f0npf0vf0", "enp3s0f0nc1pf0vf1", "enp3s0f0npf0")),
        ("enp3s0f0np0", ("enp3s0f0r0", "enp3s0f0r1")),
        ("ens1f0np0", ("ens1f0np0_0", "ens1f0np0_1")),
        ("eth2", ("eth2_0", "pf0vf0")),
        ("ens1", ("ens1d1",)),
        ("enp3s0f0np0", ("enp3s0f0s88", "enp3s0f0npf0sf88")),
        ("ibp3s0", ("ibp3s0.8001",)),
    ],
)
def test_a_representor_is_not_the_interface_of_the_physical_function(own, representors, mac):
    for order in (1, -1):
        nodes = switch(*[(own, BURNT), *((name, mac) for name in representors)][::order])
        (device,) = devices(nodes)
        assert (device.net_name, device.mac) == (own, BURNT)
        assert list(doubtful_interfaces(nodes)) == []


def test_a_random_mac_tells_a_representor_that_was_not_renamed():
    (device,) = devices(switch(("eth1", RANDOM), ("eth2", BURNT), ("eth3", RANDOM)))
    assert device.net_name == "eth2"


@pytest.mark.parametrize(
    "interfaces",
    [
        (("eth0", BURNT), ("eth1", BURNT)),
        (("ens1f0", RANDOM), ("eth0", BURNT)),  # the name says one thing, the MAC another
        (("pf0vf0", RANDOM),),  # the function's own is in another network namespace
    ],
)
def test_the_interface_of_a_function_is_unknown_if_it_cannot_be_told(interfaces):
    nodes = switch(*interfaces)
    (device,) = devices(nodes)
    assert (device.net_name, device.mac) == (None, None)
    assert dict(doubtful_interfaces(nodes)) == {PF: tuple(sorted(dict(interfaces)))}


def test_a_vdpa_device_is_a_virtual_function_bound_to_it():
    function = pci("0000:06:00.2", pf="0000:06:00.0")
    device = the_only(function, vdpa("/dev/vhost-vdpa-0", "pci_0000_06_00_2"))
    assert (device.dev_type, device.vdpa_dev) == (VDPA, "/dev/vhost-vdpa-0")
    assert device.parent_addr == "0000:06:00.0"


FUNCTIONS = "<capability type='virt_functions' maxCount='8'/>"


@pytest.mark.parametrize(("more", "dev_type"), [(FUNCTIONS, SRIOV_PF), ("", STANDARD)])
def test_a_device_with_a_vdpa_device_that_is_no_virtual_function_stays_what_it_is(more, dev_type):
    """As of a physical function, which has the vDPA devices of its subfunctions."""
    parents = ("pci_0000_06_00_0", "pci_0000_06_00_0", "computer", "pci_0000_07_00_0")
    parts = (
        vdpa(f"/dev/vhost-vdpa-{number}", parent).replace("vdpa_vdpa0", f"vdpa_vdpa{number}")
        for number, parent in enumerate(parents)
    )
    nodes = parsed(pci("0000:06:00.0", more=more), *parts)
    (device,) = devices(nodes)
    assert (device.dev_type, device.vdpa_dev) == (dev_type, "/dev/vhost-vdpa-0")
    assert vdpas(nodes) == {
        "/dev/vhost-vdpa-0": "0000:06:00.0",
        "/dev/vhost-vdpa-1": "0000:06:00.0",
        "/dev/vhost-vdpa-2": None,  # of VDUSE
    }


def test_mediated_devices():
    uuid = "c60cc60c-c60c-c60c-c60c-c60cc60cc60c"
    nodes = parsed(gpu("0000:08:00.0", free=3), mdev(uuid, "nvidia-11", "pci_0000_08_00_0"))
    (device,) = devices(nodes)
    assert device.mdev_types == (
        MdevType(id="nvidia-11", name="GRID", device_api="vfio-pci", available_instances=3),
    )
    assert mdevs(nodes) == (Mdev(uuid=uuid, type="nvidia-11", parent_addr="0000:08:00.0"),)
    assert mdevs(parsed(mdev(uuid, "nvidia-11", "css_0_0_0000"))) == ()


def test_a_device_without_a_numa_node():
    for numa in ("", "<numa/>", "<numa node='-1'/>"):
        assert the_only(pci("0000:08:00.0", more=numa)).numa_node is None


def of_class(number, more=""):
    return pci("0000:00:00.0", more=f"<class>{number}</class>{more}")


@pytest.mark.parametrize(
    "document",
    [
        of_class("0x060000"),
        of_class("0x060400"),
        of_class("0x068000", more="<capability type='pci-bridge'/>"),
        bridge("10000:00:02.0"),
    ],
)
def test_bridges_are_never_assigned(document):
    assert devices(parsed(document)) == ()


def test_an_endpoint_of_the_class_of_other_bridges_is_a_device():
    """As NVIDIA's NVSwitch."""
    assert the_only(of_class("0x068000")).address == "0000:00:00.0"


@pytest.mark.parametrize("address", ["10000:e1:00.0", "ffffffff:00:00.0"])
def test_devices_behind_a_volume_management_device_are_no_problem(address):
    assert devices(parsed(pci(address))) == ()


def test_the_root_port_is_the_first_bridge_below_the_host():
    port, upstream, downstream = "0000:00:1c.0", "0000:03:00.0", "0000:04:08.0"
    pf, vf, direct, graphics = "0000:05:00.0", "0000:05:00.1", "0000:81:00.0", "0000:00:02.0"
    nodes = parsed(
        bridge(port),
        bridge(upstream, behind=port),
        bridge(downstream, behind=upstream),
        pci(pf, behind=downstream),
        pci(vf, pf=pf, behind=downstream),
        bridge("0000:80:00.0"),
        pci(direct, behind="0000:80:00.0"),
        pci(graphics),
        net("eth0", None, pci_name(graphics)),
    )
    assert dict(root_ports(nodes)) == {pf: port, vf: port, direct: "0000:80:00.0"}
    assert len(devices(nodes)) == 4


@pytest.mark.parametrize(
    "bridges",
    [
        [],
        # the port above the switch could not be read
        [bridge("0000:03:00.0", behind="0000:00:1c.0")],
        # libvirt never writes this
        [bridge("0000:03:00.0", behind="0000:03:00.0")],
        [bridge("0000:03:00.0", behind="0000:02:00.0"), bridge("0000:02:00.0", "0000:03:00.0")],
    ],
)
def test_a_root_port_is_unknown_if_a_bridge_below_it_is(bridges):
    nodes = parsed(*bridges, pci("0000:04:00.0", behind="0000:03:00.0"))
    assert dict(root_ports(nodes)) == {}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("<device>", "not well-formed"),
        ("<domain/>", "<domain> where <device>"),
        (pci("0000:00:20.0"), "slot: 20 is more than 1F"),
        (pci("0000:00:02.0", pf="10000:00:00.0"), "address of the physical function: domain"),
        (pci("0000:00:02.0", vendor="x"), "<vendor id> is '0xx': it must be at most four"),
        (pci("0000:00:02.0").replace("<bus>0</bus>", ""), "no <bus>"),
        (pci("0000:00:02.0").replace("<product id='0x1583'/>", ""), "<product id> is ''"),
        (net("", None, "x"), "no <interface>"),
    ],
)
def test_an_invalid_document_names_the_element(document, message):
    with pytest.raises(BadDocument, match=message):
        parse_node_device(document)
