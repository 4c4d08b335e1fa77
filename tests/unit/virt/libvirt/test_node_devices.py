"""Which node devices are read when, and what an odd one costs."""

import libvirt
import pytest

from rtagent.model.device import SRIOV_PF, VDPA, Mdev
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.domains import ROUND
from rtagent.virt.libvirt.events import DEVICE_EVENTS, subscribe_devices
from rtagent.virt.libvirt.node_devices import NodeDevices
from rtagent.virt.libvirt.workers import CallWorkers
from tests.support.hosts import uid
from tests.support.node_devices import (
    Libvirt,
    Node,
    bridge,
    gone,
    gpu,
    mdev,
    net,
    pci,
    pci_name,
    unsupported,
    vdpa,
)

PF, GPU, OTHER_GPU = "0000:20:00.0", "0000:08:00.0", "0000:88:00.0"
TYPE = "nvidia-11"


class Host(Libvirt):
    """A connection with devices, and what observes them."""

    def __init__(self, *documents, timeout=60.0):
        super().__init__(*documents)
        self.observed = NodeDevices(CallWorkers(timeout))
        self.session = Session(self, ())

    def look(self):
        return self.observed.look(self.session)


def addresses(look):
    return [device.address for device in look.devices]


def test_a_device_combines_its_own_and_related_documents():
    vf = "0000:20:02.0"
    virt = Host(
        pci(PF, more="<capability type='virt_functions' maxCount='8'/>"),
        net("p20", "aa:bb:cc:00:00:00", pci_name(PF)),
        pci(vf, product="154c", pf=PF),
        net("p20v0", None, pci_name(vf)),
        vdpa("/dev/vhost-vdpa-0", pci_name(vf)),
        net("bond0", "aa:bb:cc:00:00:09", "computer"),
    )
    pf, function = virt.look().devices
    assert (pf.dev_type, pf.net_name) == (SRIOV_PF, "p20")
    assert (function.dev_type, function.vdpa_dev) == (VDPA, "/dev/vhost-vdpa-0")
    assert (function.parent_ifname, function.net_name) == ("p20", "p20v0")
    assert virt.observed.vdpas == {"/dev/vhost-vdpa-0": vf}
    assert virt.observed.interfaces == {"p20": PF, "p20v0": vf, "bond0": None}


def test_a_function_is_set_aside_while_the_host_itself_uses_its_vdpa_device():
    vf, part = "0000:20:02.0", pci_name("0000:20:02.0")
    virt = Host(pci(vf, pf=PF), pci(GPU), vdpa("", part), net("p20v0", None, part))
    look = virt.look()
    assert addresses(look) == [GPU]
    (problem,) = look.problems
    assert problem.item == f"device {vf}"
    assert "bind that to vhost_vdpa" in problem.message
    assert (virt.observed.vdpas, virt.observed.interfaces) == ({}, {"p20v0": vf})


def test_root_ports_cost_no_call_of_their_own():
    port = "0000:00:1c.0"
    virt = Host(bridge(port), pci(GPU, behind=port))
    assert dict(virt.look().root_ports) == {GPU: port}

    virt.add(pci(OTHER_GPU, behind="0000:80:1c.0"))
    assert dict(virt.look().root_ports) == {GPU: port}
    virt.add(bridge("0000:80:1c.0"))
    assert dict(virt.look().root_ports) == {GPU: port, OTHER_GPU: "0000:80:1c.0"}

    assert virt.listings == 3
    assert set(virt.reads.values()) == {1}
    assert virt.look().problems == ()


def test_a_mark_during_an_observation_applies_to_the_next():
    virt = Host(gpu(GPU))
    virt.on_listing = lambda: virt.observed.mark(pci_name(GPU))
    virt.look()
    virt.on_listing = lambda: None
    virt.look()
    assert virt.reads[pci_name(GPU)] == 2


def free(look):
    return {d.address: d.mdev_types[0].available_instances for d in look.devices}


def test_a_mediated_device_changes_the_available_instances_of_its_parent():
    virt = Host(gpu(GPU), gpu(OTHER_GPU))
    assert free(virt.look()) == {GPU: 4, OTHER_GPU: 4}

    virt.add(mdev(uid(1), TYPE, pci_name(GPU)))
    virt.nodes[pci_name(GPU)].document = gpu(GPU, free=3)
    look = virt.look()
    assert free(look) == {GPU: 3, OTHER_GPU: 4}
    assert look.mdevs == (Mdev(uuid=uid(1), type=TYPE, parent_addr=GPU),)

    virt.nodes = {name: node for name, node in virt.nodes.items() if name.startswith("pci")}
    virt.nodes[pci_name(GPU)].document = gpu(GPU, free=4)
    look = virt.look()
    assert (free(look), look.mdevs) == ({GPU: 4, OTHER_GPU: 4}, ())
    assert virt.reads == {pci_name(GPU): 3, pci_name(OTHER_GPU): 1}


def test_a_change_without_an_event_is_seen_in_one_of_ten_observations():
    """As of the types of mediated devices, which the driver's own service makes late."""
    virt = Host(pci(GPU, "10de", "13f1"), *(pci(f"0000:20:02.{n}") for n in range(7)))
    assert virt.look().devices[0].mdev_types == ()
    virt.nodes[pci_name(GPU)].document = gpu(GPU, free=4)
    for _ in range(ROUND):
        look = virt.look()
    assert look.devices[0].mdev_types[0].available_instances == 4
    assert set(virt.reads.values()) == {2}


def test_a_mediated_device_that_is_read_again_without_a_change_costs_no_read_of_its_parent():
    virt = Host(gpu(GPU), mdev(uid(1), TYPE, pci_name(GPU)))
    virt.look()
    reads = virt.reads[pci_name(GPU)]
    virt.observed.mark(f"mdev_{uid(1).replace('-', '_')}")
    virt.look()
    assert virt.reads[pci_name(GPU)] == reads


def test_mediated_devices_of_other_parents_than_pci_devices_are_listed_apart():
    unread = pci_name(OTHER_GPU)
    virt = Host(
        gpu(GPU),
        mdev(uid(1), TYPE, pci_name(GPU)),
        mdev(uid(2), TYPE, unread),
        mdev(uid(3), "vfio_ccw-io", "css_0_0_0052"),
        mdev(uid(4), "mtty-1", "computer"),
    )
    assert [device.uuid for device in virt.look().mdevs] == [uid(1)]
    assert virt.observed.other_mdevs == {uid(3), uid(4)}


def test_functions_of_one_card_share_available_instances():
    makes = gpu("0000:08:00.4").partition("<capability type='mdev_types'>")[2]
    more = "<capability type='mdev_types'>" + makes.removesuffix("</capability></device>")
    functions = ["0000:08:00.4", "0000:08:00.5"]
    virt = Host(*(pci(each, "10de", "2236", pf=GPU, more=more) for each in functions))
    virt.look()
    virt.add(mdev(uid(1), TYPE, pci_name(functions[0])))
    virt.look()
    assert [virt.reads[pci_name(each)] for each in functions] == [2, 2]


def test_an_invalid_device_affects_only_itself_and_is_read_once():
    virt = Host(gpu(GPU).replace("<slot>0<", "<slot>32<"), gpu(OTHER_GPU))
    for _ in range(2):
        look = virt.look()
        assert addresses(look) == [OTHER_GPU]
        (problem,) = look.problems
        assert problem.item == f"device {pci_name(GPU)}"
        assert problem.message == "slot: 20 is more than 1F"
    assert set(virt.reads.values()) == {1}

    virt.observed.mark(pci_name(GPU))
    virt.nodes[pci_name(GPU)].document = gpu(GPU)
    look = virt.look()
    assert (addresses(look), look.problems) == ([GPU, OTHER_GPU], ())


def test_a_look_that_broke_off_does_not_hide_a_removal():
    virt = Host(gpu(GPU), gpu(OTHER_GPU))
    virt.look()
    del virt.nodes[pci_name(OTHER_GPU)]
    node = virt.nodes[pci_name(GPU)]
    good, node.document, virt.alive = node.document, unsupported(), False
    virt.observed.mark(pci_name(GPU))
    with pytest.raises(libvirt.libvirtError):
        virt.look()

    node.document, virt.alive = good, True

    assert addresses(virt.look()) == [GPU]


def test_a_function_whose_own_interface_is_unknown_is_a_problem():
    nets = (net(name, "aa:bb:cc:00:00:00", pci_name(PF)) for name in ("eth0", "eth1"))
    virt = Host(pci(PF), *nets)
    look = virt.look()
    (problem,) = look.problems
    assert problem.item == f"device {PF}"
    assert "eth0, eth1" in problem.message
    assert addresses(look) == [PF]
    # A guest of either may have the device.
    assert virt.observed.interfaces == {"eth0": PF, "eth1": PF}


def test_a_device_removed_during_the_observation_is_no_problem():
    virt = Host(gpu(GPU), gpu(OTHER_GPU))
    virt.nodes[pci_name(GPU)].document = gone()
    look = virt.look()
    assert (addresses(look), look.problems) == ([OTHER_GPU], ())

    virt.nodes[pci_name(GPU)].document = gpu(GPU)  # and is back
    assert addresses(virt.look()) == [GPU, OTHER_GPU]


def test_an_unreadable_device_keeps_its_value_and_is_retried():
    virt = Host(gpu(GPU))
    before = virt.look()
    node = virt.nodes[pci_name(GPU)]
    node.document = unsupported()

    virt.observed.mark(pci_name(GPU))
    look = virt.look()

    assert look.devices == before.devices
    assert [problem.item for problem in look.problems] == [f"device {pci_name(GPU)}"]
    node.document = gpu(GPU, free=1)
    assert free(virt.look()) == {GPU: 1}


@pytest.mark.parametrize("alive", [True, False])
def test_a_failed_listing_is_raised_and_the_next_session_reads_everything(alive):
    virt = Host(gpu(GPU), mdev(uid(1), TYPE, pci_name(GPU)))
    known = virt.look()
    virt.session = Session(virt, ())
    virt.refusal, virt.alive = unsupported(), alive
    with pytest.raises(libvirt.libvirtError):
        virt.look()
    look = virt.observed.unlisted("gone")
    assert (look.devices, look.mdevs) == (None, known.mdevs)
    assert [problem.item for problem in look.problems] == ["node devices"]

    virt.refusal, virt.alive = None, True

    assert virt.look().devices == known.devices
    assert virt.reads[pci_name(GPU)] == 2


def test_a_hanging_listing_is_not_repeated(release):
    virt = Host(gpu(GPU), timeout=4.0)
    virt.on_listing = release.wait
    for _ in range(3):
        look = virt.look()
        assert look.devices is None
        assert [p.message for p in look.problems] == ["libvirt has not answered yet"]
    assert virt.listings == 1


class Announcer:
    """A connection that plays back events of node devices."""

    def __init__(self):
        self.callbacks = {}

    def nodeDeviceEventRegisterAny(self, device, event, callback, opaque):
        assert device is None
        self.callbacks[event] = (callback, opaque)
        return event

    def play(self, kind, name, *details):
        callback, opaque = self.callbacks[kind]
        callback(self, Node(f"<name>{name}</name>"), *details, opaque)


def test_events_mark_devices_to_read_again():
    """As a host announces that a virtual function is given to a guest, and a disk plugged in."""
    virt, names = Announcer(), []
    for event in DEVICE_EVENTS:
        subscribe_devices(virt, event, names.append)
    lifecycle, update = DEVICE_EVENTS
    virt.play(update, "pci_0000_20_02_0")
    virt.play(lifecycle, "block_sdb_QEMU_HARDDISK", libvirt.VIR_NODE_DEVICE_EVENT_CREATED, 0)
    virt.play(lifecycle, "net_p20v0_52_54_00", libvirt.VIR_NODE_DEVICE_EVENT_DELETED, 0)
    assert names == ["pci_0000_20_02_0", "net_p20v0_52_54_00"]
