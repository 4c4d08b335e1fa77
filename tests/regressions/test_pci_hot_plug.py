"""LP2147424, LP2091033: reading every device took too long, so devices were read only once.

With 210 devices each audit spent 1.5 seconds on reading them one after the other. The result was
then cached for the life of the process: hot-plugged and unplugged devices showed after a restart.

Here the names are listed in one call. New devices are read, unplugged ones are dropped, and those
that an event names are read again. Of the others, each look reads a part.
"""

from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.domains import ROUND
from rtagent.virt.libvirt.node_devices import NodeDevices
from rtagent.virt.libvirt.workers import CallWorkers
from tests.support.node_devices import Libvirt, gpu, pci, pci_name


def test_plugged_and_unplugged_devices_show_and_few_others_are_read_again():
    virt = Libvirt(*(pci(f"0000:{bus:02x}:00.0") for bus in range(210)))
    session, nodes = Session(virt, ()), NodeDevices(CallWorkers(5.0))
    nodes.look(session)

    del virt.nodes[pci_name("0000:07:00.0")]
    virt.add(gpu("0000:f0:00.0"))
    virt.nodes[pci_name("0000:08:00.0")].document = gpu("0000:08:00.0")
    nodes.mark(pci_name("0000:08:00.0"))
    makes = {device.address: device.product_id for device in nodes.look(session).devices}

    assert "0000:07:00.0" not in makes
    assert (makes["0000:f0:00.0"], makes["0000:08:00.0"]) == ("13f1", "13f1")
    again = sum(virt.reads.values()) - 209 - 2
    assert 0 < again <= 210 / ROUND
