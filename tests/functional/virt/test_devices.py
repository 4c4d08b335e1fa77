"""Devices of simulated hosts, whose file is edited, and of this machine, through a private
libvirtd."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import libvirt
import msgspec
import pytest

from rtagent.model.device import SRIOV_PF, SRIOV_VF, STANDARD, Mdev
from rtagent.virt.libvirt import LibvirtHypervisor
from rtagent.virt.libvirt.storage import FileSystem
from rtagent.virt.simulate import Machine, domain_xml, edit, host_uri, simulate
from tests.functional.virt.watching import Watcher
from tests.servers.udev import announce
from tests.support.hosts import uid
from tests.support.node_devices import gpu, mdev, net, pci, pci_name

MACHINE = Machine(sockets=2, cores=4, threads=2, memory_mb=65536, gpus=2, nics=1, vfs=2, nvmes=1)
GPU_0, GPU_1 = "0000:08:00.0", "0000:88:00.0"
PF, NVME = "0000:20:00.0", "0000:60:00.0"
VFS = ["0000:20:02.0", "0000:20:02.1"]
VPD = (
    "<capability type='vpd'><name>card</name><fields access='readonly'>"
    "<serial_number>MT2113X00000</serial_number></fields></capability>"
)


@pytest.fixture
def file(tmp_path):
    simulate(tmp_path / "host.xml", MACHINE)
    return tmp_path / "host.xml"


@pytest.fixture
def connect():
    """Makes hypervisors that are stopped in the end."""
    with contextlib.ExitStack() as stack:

        def make(uri):
            size = FileSystem(total=1024**4, free=1024**4)
            hypervisor = LibvirtHypervisor(uri, "/instances", probe=lambda _: size)
            stack.callback(hypervisor.stop)
            return hypervisor

        yield make


def devices(hypervisor):
    seen = hypervisor.observe()
    assert (seen.complete, seen.problems) == (True, ())
    assert seen.devices is not None
    return {device.address: device for device in seen.devices}


def test_the_devices_of_a_simulated_host(connect, file):
    seen = devices(connect(host_uri(file)))

    assert {address: device.dev_type for address, device in seen.items()} == {
        GPU_0: STANDARD,
        "0000:08:00.1": STANDARD,
        GPU_1: STANDARD,
        "0000:88:00.1": STANDARD,
        PF: SRIOV_PF,
        **dict.fromkeys(VFS, SRIOV_VF),
        NVME: STANDARD,
    }
    assert [(seen[each].vendor_id, seen[each].product_id) for each in (GPU_0, GPU_1)] == [
        ("10de", "13f1")
    ] * 2
    assert [seen[each].numa_node for each in (GPU_0, GPU_1, PF, *VFS)] == [0, 1, 0, 0, 0]
    assert (seen[PF].net_name, seen[VFS[1]].parent_ifname) == ("enp32s0", "enp32s0")
    assert seen[VFS[1]].parent_addr == PF
    assert seen[PF].capabilities == {"network": ("rx", "tx")}


def test_plug_and_unplug_emit_events(connect, file):
    hypervisor, watcher = connect(host_uri(file)), Watcher()
    hypervisor.start(watcher)
    before = devices(hypervisor)
    with edit(file) as world:
        world.add_device(gpu("0000:09:00.0"))
        world.remove_device(pci_name(GPU_1))

    watcher.wait_for("file")

    after = devices(hypervisor)
    assert after.keys() - before.keys() == {"0000:09:00.0"}
    assert before.keys() - after.keys() == {GPU_1}


def test_root_ports_follow_the_bridges(connect, file):
    hypervisor = connect(host_uri(file))
    before = dict(hypervisor.observe().root_ports)
    assert before == {
        **dict.fromkeys((GPU_0, "0000:08:00.1"), "0000:00:01.0"),
        **dict.fromkeys((GPU_1, "0000:88:00.1"), "0000:80:01.0"),
        **dict.fromkeys((PF, *VFS), "0000:00:04.0"),
        NVME: "0000:00:0c.0",
    }
    with edit(file) as world:
        world.remove_device(pci_name("0000:00:0c.0"))
    del before[NVME]
    assert dict(hypervisor.observe().root_ports) == before


def test_virtual_functions_added_later_are_discovered(connect, file):
    hypervisor = connect(host_uri(file))
    devices(hypervisor)
    vf = "0000:20:02.2"
    with edit(file) as world:
        world.add_device(pci(vf, product="154c", pf=PF, more=VPD))
        world.add_device(net("enp32s0v2", "52:54:00:20:02:02", pci_name(vf)))

    made = devices(hypervisor)[vf]

    assert (made.dev_type, made.net_name, made.parent_ifname) == (
        SRIOV_VF,
        "enp32s0v2",
        "enp32s0",
    )
    assert made.card_serial_number == "MT2113X00000"


def test_mediated_devices_and_their_available_instances(connect, file):
    hypervisor = connect(host_uri(file))
    with edit(file) as world:
        world.add_device(gpu("0000:09:00.0", free=3))
        world.add_device(mdev(uid(1), "nvidia-11", pci_name("0000:09:00.0")))

    seen = hypervisor.observe()

    assert seen.mdevs == (Mdev(uuid=uid(1), type="nvidia-11", parent_addr="0000:09:00.0"),)
    (maker,) = (device for device in seen.devices if device.address == "0000:09:00.0")
    assert [(each.id, each.available_instances) for each in maker.mdev_types] == [("nvidia-11", 3)]


def test_an_invalid_device_is_a_problem_and_the_others_are_reported(connect, file):
    with edit(file) as world:
        world.add_device(gpu("0000:09:00.0").replace("<slot>0<", "<slot>32<"))

    seen = connect(host_uri(file)).observe()

    assert len(seen.devices) == 8
    assert [(problem.item, problem.message) for problem in seen.problems] == [
        ("device pci_0000_09_00_0", "slot: 20 is more than 1F")
    ]


def test_assigned_devices_are_in_a_domains_occupancy(connect, file):
    given = (
        "<hostdev mode='subsystem' type='pci'><source>"
        "<address domain='0' bus='0x08' slot='0' function='0'/></source></hostdev>"
        "<interface type='hostdev'><source>"
        "<address type='pci' domain='0' bus='0x20' slot='2' function='1'/></source></interface>"
    )
    uuid, shut = uid(1), uid(2)
    document = domain_xml(uuid, vcpus=1, memory_mb=64)
    off = domain_xml(shut, vcpus=1, memory_mb=64, active=False)
    with edit(file) as world:
        for each in (document, off):
            world.add_domain(each.replace("</domain>", f"<devices>{given}</devices></domain>"))

    domains = connect(host_uri(file)).observe().domains

    assert domains[uuid].occupancy.devices == {GPU_0, VFS[1]}
    assert domains[shut].occupancy.devices == frozenset()


def test_devices_behind_disks_and_interfaces_are_in_a_domains_occupancy(connect, file):
    given = (
        "<disk type='nvme' device='disk'><source type='pci' namespace='1'>"
        "<address domain='0' bus='0x60' slot='0' function='0'/></source>"
        "<target dev='vda' bus='virtio'/></disk>"
        "<interface type='direct'><source dev='enp32s0f0v0' mode='passthrough'/></interface>"
    )
    uuid = uid(1)
    document = domain_xml(uuid, vcpus=1, memory_mb=64)
    with edit(file) as world:
        world.add_device(net("enp32s0f0v0", None, pci_name(VFS[0])))
        world.add_domain(document.replace("</domain>", f"<devices>{given}</devices></domain>"))
    hypervisor = connect(host_uri(file))

    seen = hypervisor.observe()

    assert (seen.domains[uuid].occupancy.devices, seen.problems) == ({NVME, VFS[0]}, ())
    assert hypervisor.guest(uuid).ports == {VFS[0]}


#: Three looks at a host.
LOOKS = """
import sys
from rtagent.virt.libvirt import LibvirtHypervisor
from rtagent.virt.libvirt.storage import FileSystem

size = FileSystem(total=1, free=1)
hypervisor = LibvirtHypervisor(sys.argv[1], "/instances", probe=lambda _: size)
for _ in range(3):
    print(len(hypervisor.observe().devices))
hypervisor.stop()
"""


def test_three_hundred_devices_cost_libvirt_one_call_when_nothing_changed(tmp_path):
    """Counted in libvirt's own log of the calls that are made to it."""
    file, log = tmp_path / "host.xml", tmp_path / "libvirt.log"
    simulate(file, msgspec.structs.replace(MACHINE, nics=2, vfs=150))
    environment = {
        "LIBVIRT_LOG_FILTERS": "1:libvirt.nodedev",
        "LIBVIRT_LOG_OUTPUTS": f"1:file:{log}",
    }

    looks = subprocess.run(
        [sys.executable, "-c", LOOKS, host_uri(file)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert looks.stdout.split() == ["307"] * 3
    calls = re.findall(r": (vir(?:Connect|NodeDevice)\w+):\d+ :", log.read_text())
    # The test driver does not know the flag that leaves out devices which are only defined, which
    # costs a call, once.
    assert calls.count("virConnectListAllNodeDevices") == 3 + 1
    assert calls.count("virNodeDeviceGetXMLDesc") == 307 + 2 + 5  # and interfaces and root ports
    of_devices = {call for call in calls if call.startswith("virNodeDevice")}
    assert of_devices <= {"virNodeDeviceGetXMLDesc", "virNodeDeviceGetName", "virNodeDeviceFree"}


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
        if not (device / "class").read_text().startswith("0x06")
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
