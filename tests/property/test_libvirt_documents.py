"""For any document of libvirt, its parser returns usable facts or an error that names the fault."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rtagent.model.topology import Topology
from rtagent.virt.libvirt import guest
from rtagent.virt.libvirt.capabilities import parse_capabilities, parse_cells
from rtagent.virt.libvirt.document import BadDocument, HostFacts, parse
from rtagent.virt.libvirt.domain import parse_domain
from rtagent.virt.libvirt.hostfile import simulated_hostname
from rtagent.virt.libvirt.node_device_xml import devices, mdevs, parse_node_device
from rtagent.virt.libvirt.traits import domain_traits, host_traits
from tests import data
from tests.support import node_devices
from tests.support.guests import granted
from tests.support.odd_documents import odd

DATA = Path(data.__file__).parent
CAPABILITIES = [*DATA.glob("capabilities/*.xml"), *DATA.glob("libvirt/capabilities-*.xml")]
DOMAIN_CAPABILITIES = DATA.glob("libvirt/domain-capabilities-*.xml")
#: A claim of two cells.
BOUND = granted(cpu_policy="dedicated", numa_nodes="2")
#: The largest integer of a database.
LARGEST = 2**63 - 1
PF, VF = "0000:20:00.0", "0000:20:02.1"
VPD = (
    "<capability type='vpd'><fields access='readonly'><serial_number>S1</serial_number></fields>"
    "</capability><numa node='1'/><iommuGroup number='15'/>"
    "<capability type='virt_functions' maxCount='63'/>"
)
NODE_DEVICES = (
    node_devices.pci(PF, more=VPD),
    node_devices.pci(VF, pf=PF),
    node_devices.gpu("0000:88:00.0"),
    node_devices.net("eth0", "52:54:00:6d:90:02", node_devices.pci_name(VF)),
    node_devices.vdpa("/dev/vhost-vdpa-0", node_devices.pci_name(VF)),
    node_devices.mdev("a3d9", "nvidia-11", node_devices.pci_name("0000:88:00.0")),
)


def documents(files: Iterable[Path]) -> st.SearchStrategy[str]:
    return st.sampled_from([file.read_text() for file in sorted(files)]).flatmap(odd)


def numbers(value: Any) -> Iterable[int]:
    """Every integer in a value."""
    built = value if isinstance(value, dict | list) else msgspec.to_builtins(value, str_keys=False)
    if isinstance(built, int):
        yield built
    elif isinstance(built, dict):
        for key, each in built.items():
            yield from (key,) if isinstance(key, int) else ()
            yield from numbers(each) if isinstance(each, dict | list | int) else ()
    elif isinstance(built, list):
        for each in built:
            yield from numbers(each) if isinstance(each, dict | list | int) else ()


def check_usable(value: Any) -> None:
    """The value can be stored, and sent as JSON."""
    assert all(0 <= number <= LARGEST for number in numbers(value))
    msgspec.json.encode(msgspec.to_builtins(value))


@given(documents(CAPABILITIES))
def test_capabilities(text):
    try:
        host = parse_capabilities(text)
        cells = parse_cells(text, host.cpus)
        simulated_hostname(text)
        host_traits(host, host.cpu_info["features"])
    except BadDocument:
        return
    check_usable(host)
    check_usable(
        Topology(cpus=host.cpus, memory_mb=1, disk_mb=1, cpu_info=host.cpu_info, cells=cells)
    )
    assert all(size for cell in cells for size in cell.pages)


@given(documents(DOMAIN_CAPABILITIES))
def test_domain_capabilities(text):
    try:
        domain_traits(parse(text))
    except BadDocument:
        return


@given(documents(DATA.glob("libvirt/domain-bound.xml")))
def test_domains(text):
    try:
        facts = parse_domain(text)
    except BadDocument:
        return
    check_usable(facts)
    check_usable(facts.confinement.occupancy(HostFacts(online=frozenset({0, 1, 2, 3}))))


@given(documents(DATA.glob("libvirt/domain-bound.xml")))
def test_domains_to_which_a_claim_is_applied(text):
    try:
        guest.apply(text, BOUND)
    except BadDocument:
        return


@given(st.lists(st.sampled_from(NODE_DEVICES).flatmap(odd), min_size=1, max_size=4))
def test_node_devices(texts):
    nodes = {}
    for text in (*NODE_DEVICES, *texts):
        try:
            node = parse_node_device(text)
        except BadDocument:
            continue
        if node is not None:
            nodes[node.name] = node
    check_usable(devices(nodes))
    check_usable(mdevs(nodes))
