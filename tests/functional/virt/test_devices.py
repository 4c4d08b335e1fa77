"""Devices of simulated hosts, whose file is edited, and of this machine, through a private
libvirtd."""

import re
from pathlib import Path

import libvirt
import pytest

from rtagent.model.device import Mdev
from rtagent.virt.libvirt.guest import apply
from rtagent.virt.simulate import Machine, domain_xml, edit, host_uri, simulate
from tests.functional.virt.watching import Watcher
from tests.servers.udev import announce
from tests.support.guests import granted, with_namespaces
from tests.support.hosts import uid
from tests.support.node_devices import gpu, mdev, net, pci_name

MACHINE = Machine(
    sockets=2, cores=4, threads=2, gpus=2, nics=1, vfs=2, nvmes=1, namespaces={"ns0": 4096}
)
NVME, VF = "0000:60:00.0", "0000:20:02.0"
#: Of another program.
MDEV = Mdev(uuid=uid(2), type="nvidia-11", parent_addr="0000:09:00.0")


@pytest.fixture
def file(tmp_path):
    simulate(tmp_path / "host.xml", MACHINE)
    return tmp_path / "host.xml"


def devices(hypervisor):
    seen = hypervisor.observe()
    assert (seen.complete, seen.problems) == (True, ())
    assert seen.devices is not None
    return {device.address: device for device in seen.devices}


def test_devices_of_any_element_are_in_a_domains_occupancy_and_layout(connect, file):
    given = (
        "<disk type='nvme' device='disk'><source type='pci' namespace='1'>"
        "<address domain='0' bus='0x60' slot='0' function='0'/></source>"
        "<target dev='vda' bus='virtio'/></disk>"
        "<interface type='direct'><source dev='enp32s0f0v0' mode='passthrough'/></interface>"
        "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source>"
        f"<address uuid='{MDEV.uuid}'/></source></hostdev>"
    )
    uuid = uid(1)
    document = domain_xml(uuid, vcpus=1, memory_mb=64)
    with edit(file) as world:
        world.add_device(net("enp32s0f0v0", None, pci_name(VF)))
        world.add_device(gpu(MDEV.parent_addr, free=0))
        world.add_device(mdev(MDEV.uuid, MDEV.type, pci_name(MDEV.parent_addr)))
        world.add_domain(document.replace("</domain>", f"<devices>{given}</devices></domain>"))
        persistent = with_namespaces(granted(1, 64), 4096)
        world.add_domain(apply(domain_xml(uid(3), vcpus=1, memory_mb=64), persistent))
    hypervisor = connect(host_uri(file))

    seen = hypervisor.observe()

    assert (seen.domains[uuid].occupancy.devices, seen.problems) == ({NVME, VF}, ())
    assert seen.domains[uid(3)].occupancy.namespaces == {"ns0"}
    layout = hypervisor.guest(uuid)
    assert (layout.ports, layout.mdevs) == ({VF}, {MDEV.uuid: MDEV})


# -- this machine ----------------------------------------------------------------------------------

SYS = Path("/sys/bus/pci/devices")


@pytest.fixture
def uri(libvirtd):
    """Of a daemon that has looked at its emulators, which takes its time."""
    connection = libvirt.open(libvirtd.uri)
    connection.getCapabilities()
    connection.close()
    return libvirtd.uri


def endpoints():
    """What Linux itself says of PCI devices that are no bridges: vendor and product by address."""
    return {
        device.name: tuple((device / name).read_text().strip() for name in ("vendor", "device"))
        for device in SYS.iterdir()
        if not re.match("0x06(?!80)", (device / "class").read_text())
    }


def test_the_devices_of_this_machine(connect, uri):
    expected = {address: ids for address, ids in endpoints().items() if len(address) == 12}

    seen = devices(connect(uri))

    assert {a: (f"0x{d.vendor_id}", f"0x{d.product_id}") for a, d in seen.items()} == expected


def test_interfaces_of_this_machine(connect, uri):
    names = {device.net_name for device in devices(connect(uri)).values()} - {None}

    drivers = {link.name: link.resolve() for link in Path("/sys/class/net").iterdir()}
    assert names == {
        name for name, path in drivers.items() if re.search(r"/[0-9a-f]{4}:[0-9a-f:.]+/", str(path))
    }


def test_a_device_of_this_machine_that_is_removed_and_added_again(connect, uri):
    """Events as udevd sends them reach the agent through libvirtd at once."""
    hypervisor, watcher = connect(uri), Watcher()
    hypervisor.start(watcher)
    before = devices(hypervisor)
    address = min(before)

    announce("remove", address)
    watcher.wait_for("device")
    assert devices(hypervisor) == {a: d for a, d in before.items() if a != address}

    announce("add", address)
    watcher.wait_for("device")
    assert devices(hypervisor) == before

    announce("change", address)
    watcher.wait_for("device")
    assert devices(hypervisor) == before
