"""At which of its cells a guest sees a device."""

import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent.virt.libvirt.guest import apply
from tests.support.guests import FAR, GPU, applied, granted, plain_domain, seats
from tests.support.pci_hosts import PF_0

Q35 = plain_domain().replace("<type arch='x86_64'>", "<type arch='x86_64' machine='q35'>")
PC = plain_domain().replace("<type arch='x86_64'>", "<type arch='x86_64' machine='pc'>")


def claim(*devices, cells="2"):
    """A guest on as many cells as the host has, first on first."""
    return replace(granted(numa_nodes=cells), pci=devices)


def numbers(document):
    """Bus numbers, by cell."""
    targets = etree.fromstring(document).iterfind("devices/controller/target[@busNr]")
    return {int(target.findtext("node")): int(target.get("busNr")) for target in targets}


def test_guest_cells_have_their_own_numbers():
    """Its first cell is on the host's second."""
    guest = granted(numa_nodes="2").numa_topology
    assert guest is not None
    turned = replace(guest, cells=tuple(reversed(guest.cells)))
    swapped = replace(claim(GPU), numa_topology=turned)
    assert seats(applied(swapped, domain=Q35)) == {"0x08": (1, 0)}


def test_devices_of_one_cell_share_its_bus_and_each_bus_has_room_for_its_ports():
    other = replace(GPU, address=PF_0)
    document = applied(claim(GPU, other, FAR), domain=Q35)
    assert seats(document) == {"0x08": (0, 0), "0x20": (0, 1), "0x88": (1, 0)}
    assert numbers(document) == {0: 256 - 3, 1: 256 - 3 - 2}


@pytest.mark.parametrize(
    ("one", "domain"),
    [
        (claim(GPU, cells="1"), Q35),
        (claim(replace(GPU, numa_node=None)), Q35),
        (claim(replace(GPU, numa_node=7)), Q35),
        (claim(GPU), PC),
        (claim(GPU), plain_domain()),
    ],
    ids=["one cell", "no cell", "another cell", "another machine", "no machine"],
)
def test_no_bus_is_added_without_a_benefit(one, domain):
    document = applied(one, domain=domain)
    assert seats(document) == {"0x08": None}
    assert "controller" not in document


def test_buses_of_another_claim_replace_them():
    document = applied(claim(GPU, FAR), domain=Q35)
    assert seats(applied(claim(FAR), domain=document)) == {"0x88": (1, 0)}
    assert "controller" not in applied(claim(), domain=document)


def test_an_address_in_the_document_stays():
    source = "<source><address bus='0x08'/></source><address type='pci' bus='0x05'/>"
    own = f"<hostdev type='pci' mode='subsystem'>{source}</hostdev>"
    document = apply(Q35.replace("</devices>", f"{own}</devices>"), claim(GPU))
    assert "controller" not in document
    assert 'bus="0x05"' in document


def test_existing_expander_buses_stay_and_none_is_added():
    bus = "<target busNr='200'><node>1</node></target></controller>"
    own = f"<devices><controller type='pci' index='7' model='pcie-expander-bus'>{bus}"
    document = applied(claim(GPU), domain=Q35.replace("<devices>", own))
    assert seats(document) == {"0x08": None}
    assert numbers(document) == {1: 200}


@pytest.mark.parametrize(
    "own",
    [
        "<controller type='pci' index='4' model='pcie-root-port'/>",
        # libvirt adds the controller with this index.
        "<iommu model='virtio'><address type='pci' bus='0x04' slot='0x00' function='0x0'/></iommu>",
    ],
)
def test_indices_of_the_documents_own_controllers_are_left_alone(own):
    document = applied(claim(GPU), domain=Q35.replace("<devices>", f"<devices>{own}"))
    assert apply(document, claim(GPU)) == document
    indices = [c.get("index") for c in etree.fromstring(document).iterfind("devices/controller")]
    assert indices[-2:] == ["5", "6"]
