"""Domain documents, as rtagent reads them and as libvirt documents them."""

from xml.etree import ElementTree

import pytest

from rtagent.model.domain_usage import HostResource
from rtagent.model.topology import Cell
from rtagent.virt.libvirt.document import HostFacts
from rtagent.virt.libvirt.domain import parse_domain
from tests.documents.differences import READ
from tests.documents.oracle import domain as oracle
from tests.documents.oracle.values import UNKNOWN
from tests.documents.source import DOMAINS, difference, folders, require_equal

FOLDERS = folders(*DOMAINS)
#: The kind of resource of each fact.
KINDS = {
    "pcpus": HostResource.CPUS,
    "memory by cell": HostResource.CELLS,
    "pages": HostResource.PAGES,
    "mem_encryption": HostResource.ENCRYPTION,
}


def host(names):
    """Return the oracle's host. It has each device that a document names, by that name."""
    pages = dict.fromkeys(oracle.PAGES, 2**30)
    return HostFacts(
        online=oracle.ONLINE,
        cells=tuple(
            Cell(id=number, cpus=frozenset(), memory_mb=2**40, pages=pages)
            for number in oracle.CELLS
        ),
        hugepage_kib=oracle.DEFAULT_PAGE,
        vdpas=names,
        interfaces=names,
        namespaces=names,
    )


def read(document):
    """Return what rtagent reads, by the oracle's names."""
    written = (
        text for each in document.iter() for text in (*each.attrib.values(), each.text or "")
    )
    names = {name.strip(): name.strip() for name in written}
    facts = parse_domain(ElementTree.tostring(document, encoding="unicode"))
    occupancy = facts.confinement.occupancy(host(names))
    devices = {*occupancy.devices, *occupancy.mdevs, *occupancy.namespaces}
    found = {
        "vcpus": UNKNOWN if facts.vcpus is None else facts.vcpus,
        "memory_mb": UNKNOWN if facts.memory_mb is None else facts.memory_mb,
        "pcpus": set(occupancy.pcpus),
        "memory by cell": dict(occupancy.memory_mb),
        "pages": {cell: dict(pool) for cell, pool in occupancy.pages.items()},
        "devices": devices,
        "mem_encryption": occupancy.mem_encryption,
    }
    if HostResource.DEVICES in occupancy.unknown:
        devices.add(UNKNOWN)
    unknown = {name for name, kind in KINDS.items() if kind in occupancy.unknown}
    return {name: UNKNOWN if name in unknown else value for name, value in found.items()}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_domain_is_read_as_libvirt_documents_it(folder, record_property):
    record_property("<domain>", len(FOLDERS[folder]))
    require_equal(FOLDERS[folder], lambda each: difference(read(each), oracle.facts(each)), READ)
