"""LP1972028, LP1897528: one odd device stopped everything.

A network interface that was unplugged between the listing and its reading ended the audit. A PCI
address with a domain of more than 16 bits ended the service at its start. Nothing else of the host
was observed either.

Here an unplugged device is absent, and so is one in such a domain, which no request can name. The
others are observed as usual.
"""

from rtagent.virt.libvirt import LibvirtHypervisor
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.node_devices import NodeDevices
from rtagent.virt.libvirt.storage import FileSystem
from rtagent.virt.libvirt.workers import CallWorkers
from rtagent.virt.simulate import Machine, edit, host_uri, simulate
from tests.support.node_devices import Libvirt, gone, gpu, net, pci, pci_name
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0


def test_interface_that_is_unplugged_while_it_is_read_is_absent():
    virt = Libvirt(pci(PF_0), net("p20", None, pci_name(PF_0)), gpu(GPU_0))
    virt.nodes["net_p20"].document = gone()

    look = NodeDevices(CallWorkers(5.0)).look(Session(virt, ()))

    assert [(device.address, device.net_name) for device in look.devices] == [
        (GPU_0, None),
        (PF_0, None),
    ]
    assert look.problems == ()


def test_device_in_a_pci_domain_of_more_than_16_bits_is_absent(tmp_path):
    file = tmp_path / "host.xml"
    simulate(file, Machine(gpus=2))
    with edit(file) as world:
        world.add_device(gpu("0000:09:00.0").replace("<domain>0<", "<domain>65536<"))
    size = FileSystem(total=1, free=1)
    hypervisor = LibvirtHypervisor(host_uri(file), "/instances", probe=lambda _: size)
    try:
        seen = hypervisor.observe()
    finally:
        hypervisor.stop()

    assert {GPU_0, GPU_1} <= {device.address for device in seen.devices}
    assert seen.problems == ()
