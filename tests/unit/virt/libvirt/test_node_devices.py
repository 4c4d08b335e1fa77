"""Which node devices are read when, and what an odd one costs."""

import libvirt
import pytest

from rtagent.model.device import SRIOV_PF, VDPA, Mdev
from rtagent.virt.libvirt.connection import Session
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


@pytest.fixture
def nodes():
    return NodeDevices(CallWorkers(timeout=60.0))


def addresses(look):
    return [device.address for device in look.devices]


def test_a_device_combines_its_own_and_related_documents(nodes):
    vf = "0000:20:02.0"
    bond = net("bond0", "aa:bb:cc:00:00:09", "computer")
    virt = Libvirt(
        pci(PF, more="<capability type='virt_functions' maxCount='8'/>"),
        net("p20", "aa:bb:cc:00:00:00", pci_name(PF)),
        pci(vf, product="154c", pf=PF),
        net("p20v0", None, pci_name(vf)),
        vdpa("/dev/vhost-vdpa-0", pci_name(vf)),
        bond,
    )
    pf, function = nodes.look(Session(virt, ())).devices
    assert (pf.dev_type, pf.net_name) == (SRIOV_PF, "p20")
    assert (function.dev_type, function.vdpa_dev) == (VDPA, "/dev/vhost-vdpa-0")
    assert (function.parent_ifname, function.net_name) == ("p20", "p20v0")
    assert nodes.vdpas == {"/dev/vhost-vdpa-0": vf}
    assert nodes.interfaces == {"p20": PF, "p20v0": vf, "bond0": None}


def test_root_ports_cost_no_call_of_their_own(nodes):
    port = "0000:00:1c.0"
    virt = Libvirt(bridge(port), pci(GPU, behind=port))
    session = Session(virt, ())
    assert dict(nodes.look(session).root_ports) == {GPU: port}

    virt.add(pci(OTHER_GPU, behind="0000:80:1c.0"))
    assert dict(nodes.look(session).root_ports) == {GPU: port}
    virt.add(bridge("0000:80:1c.0"))
    assert dict(nodes.look(session).root_ports) == {GPU: port, OTHER_GPU: "0000:80:1c.0"}

    assert virt.listings == 3
    assert set(virt.reads.values()) == {1}
    assert nodes.look(session).problems == ()


def test_a_mark_during_an_observation_applies_to_the_next(nodes):
    virt = Libvirt(gpu(GPU))
    session = Session(virt, ())
    virt.on_listing = lambda: nodes.mark(pci_name(GPU))
    nodes.look(session)
    virt.on_listing = lambda: None
    nodes.look(session)
    assert virt.reads[pci_name(GPU)] == 2


def free(look):
    return {d.address: d.mdev_types[0].available_instances for d in look.devices}


def test_a_mediated_device_changes_the_available_instances_of_its_parent(nodes):
    virt = Libvirt(gpu(GPU), gpu(OTHER_GPU))
    session = Session(virt, ())
    assert free(nodes.look(session)) == {GPU: 4, OTHER_GPU: 4}

    virt.add(mdev(uid(1), TYPE, pci_name(GPU)))
    virt.nodes[pci_name(GPU)].document = gpu(GPU, free=3)
    look = nodes.look(session)
    assert free(look) == {GPU: 3, OTHER_GPU: 4}
    assert look.mdevs == (Mdev(uuid=uid(1), type=TYPE, parent_addr=GPU),)

    virt.nodes = {name: node for name, node in virt.nodes.items() if name.startswith("pci")}
    virt.nodes[pci_name(GPU)].document = gpu(GPU, free=4)
    look = nodes.look(session)
    assert (free(look), look.mdevs) == ({GPU: 4, OTHER_GPU: 4}, ())
    assert virt.reads == {pci_name(GPU): 3, pci_name(OTHER_GPU): 1}


def test_functions_of_one_card_share_available_instances(nodes):
    makes = gpu("0000:08:00.4").partition("<capability type='mdev_types'>")[2]
    more = "<capability type='mdev_types'>" + makes.removesuffix("</capability></device>")
    functions = ["0000:08:00.4", "0000:08:00.5"]
    virt = Libvirt(*(pci(each, "10de", "2236", pf=GPU, more=more) for each in functions))
    session = Session(virt, ())
    nodes.look(session)
    virt.add(mdev(uid(1), TYPE, pci_name(functions[0])))
    nodes.look(session)
    assert [virt.reads[pci_name(each)] for each in functions] == [2, 2]


def test_an_invalid_device_affects_only_itself_and_is_read_once(nodes):
    odd = gpu(GPU).replace("<slot>0<", "<slot>32<")
    virt = Libvirt(odd, gpu(OTHER_GPU))
    session = Session(virt, ())
    for _ in range(2):
        look = nodes.look(session)
        assert addresses(look) == [OTHER_GPU]
        (problem,) = look.problems
        assert problem.item == f"device {pci_name(GPU)}"
        assert problem.message == "slot: 20 is more than 1F"
    assert set(virt.reads.values()) == {1}

    nodes.mark(pci_name(GPU))
    virt.nodes[pci_name(GPU)].document = gpu(GPU)
    look = nodes.look(session)
    assert (addresses(look), look.problems) == ([GPU, OTHER_GPU], ())


def test_a_look_that_broke_off_does_not_hide_a_removal(nodes):
    virt = Libvirt(gpu(GPU), gpu(OTHER_GPU))
    session = Session(virt, ())
    nodes.look(session)
    del virt.nodes[pci_name(OTHER_GPU)]
    node = virt.nodes[pci_name(GPU)]
    good, node.document, virt.alive = node.document, unsupported(), False
    nodes.mark(pci_name(GPU))
    with pytest.raises(libvirt.libvirtError):
        nodes.look(session)

    node.document, virt.alive = good, True

    assert addresses(nodes.look(session)) == [GPU]


def test_a_function_whose_own_interface_is_unknown_is_a_problem(nodes):
    nets = (net(name, "aa:bb:cc:00:00:00", pci_name(PF)) for name in ("eth0", "eth1"))
    look = nodes.look(Session(Libvirt(pci(PF), *nets), ()))
    (problem,) = look.problems
    assert problem.item == f"device {PF}"
    assert "eth0, eth1" in problem.message
    assert addresses(look) == [PF]
    assert nodes.interfaces == {"eth0": PF, "eth1": PF}  # a guest of either may have the device


def test_a_device_removed_during_the_observation_is_no_problem(nodes):
    virt = Libvirt(gpu(GPU), gpu(OTHER_GPU))
    virt.nodes[pci_name(GPU)].document = gone()
    session = Session(virt, ())
    look = nodes.look(session)
    assert (addresses(look), look.problems) == ([OTHER_GPU], ())

    virt.nodes[pci_name(GPU)].document = gpu(GPU)  # and is back
    assert addresses(nodes.look(session)) == [GPU, OTHER_GPU]


def test_an_unreadable_device_keeps_its_value_and_is_retried(nodes):
    virt = Libvirt(gpu(GPU))
    session = Session(virt, ())
    before = nodes.look(session)
    node = virt.nodes[pci_name(GPU)]
    node.document = unsupported()

    nodes.mark(pci_name(GPU))
    look = nodes.look(session)

    assert look.devices == before.devices
    assert [problem.item for problem in look.problems] == [f"device {pci_name(GPU)}"]
    node.document = gpu(GPU, free=1)
    assert free(nodes.look(session)) == {GPU: 1}


@pytest.mark.parametrize("alive", [True, False])
def test_a_failed_listing_is_raised_and_the_next_session_reads_everything(nodes, alive):
    virt = Libvirt(gpu(GPU), mdev(uid(1), TYPE, pci_name(GPU)))
    known = nodes.look(Session(virt, ()))
    session = Session(virt, ())
    virt.refusal, virt.alive = unsupported(), alive
    with pytest.raises(libvirt.libvirtError):
        nodes.look(session)
    look = nodes.unlisted("gone")
    assert (look.devices, look.mdevs) == (None, known.mdevs)
    assert [problem.item for problem in look.problems] == ["node devices"]

    virt.refusal, virt.alive = None, True

    assert nodes.look(session).devices == known.devices
    assert virt.reads[pci_name(GPU)] == 2


def test_a_hanging_listing_is_not_repeated(release):
    impatient = NodeDevices(CallWorkers(timeout=4.0))
    virt = Libvirt(gpu(GPU))
    virt.on_listing = release.wait
    session = Session(virt, ())
    for _ in range(3):
        look = impatient.look(session)
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


CREATED, DELETED = libvirt.VIR_NODE_DEVICE_EVENT_CREATED, libvirt.VIR_NODE_DEVICE_EVENT_DELETED
LIFECYCLE, UPDATE = DEVICE_EVENTS

#: As a host announces that a virtual function is made and given to a guest, and a disk plugged in.
ANNOUNCED = (
    (LIFECYCLE, "pci_0000_20_02_0", CREATED, 0),
    (UPDATE, "pci_0000_20_02_0"),
    (LIFECYCLE, "block_sdb_QEMU_HARDDISK", CREATED, 0),
    (LIFECYCLE, "net_p20v0_52_54_00_20_02_00", DELETED, 0),
)


def test_events_mark_devices_to_read_again(nodes):
    virt, names = Announcer(), []
    for event in DEVICE_EVENTS:
        subscribe_devices(virt, event, names.append)

    for event in ANNOUNCED:
        virt.play(*event)

    assert names == ["pci_0000_20_02_0"] * 2 + ["net_p20v0_52_54_00_20_02_00"]
