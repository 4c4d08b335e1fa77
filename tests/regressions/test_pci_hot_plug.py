"""LP2147424, LP2091033: asking about every device took too long, so they were never asked again.

With 210 devices each audit spent a second and a half on one question after the other. The answer
was then kept for as long as the process lived: what was plugged in, or pulled out, showed after a
restart.

The names are listed in one call. What is new is asked about, what is gone is forgotten, and what an
event named is asked about again.
"""

from __future__ import annotations

from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.node_devices import NodeDevices
from rtagent.virt.libvirt.worker import Workers
from tests.node_listing import Libvirt
from tests.nodedevs import gpu, pci, pci_name


def test_what_comes_and_goes_shows_and_the_rest_is_not_asked_again():
    virt = Libvirt(*(pci(f"0000:{bus:02x}:00.0") for bus in range(210)))
    session, nodes = Session(virt, ()), NodeDevices(Workers(5.0))
    nodes.look(session)

    del virt.nodes[pci_name("0000:07:00.0")]
    virt.add(gpu("0000:f0:00.0"))
    virt.nodes[pci_name("0000:08:00.0")].document = gpu("0000:08:00.0")
    nodes.mark(pci_name("0000:08:00.0"))
    makes = {device.address: device.product_id for device in nodes.look(session).devices}

    assert "0000:07:00.0" not in makes
    assert (makes["0000:f0:00.0"], makes["0000:08:00.0"]) == ("13f1", "13f1")
    assert sum(virt.reads.values()) == 209 + 2
