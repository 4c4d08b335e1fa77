"""Domain documents of others that a claim is applied to, as before a start or after a move."""

from datetime import UTC, datetime
from xml.etree import ElementTree

import libvirt
import pytest
from lxml import etree

from rtagent.model.guest import DomainDocument
from rtagent.virt.libvirt.comparison import compare
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.guest import apply
from tests.documents.claims import CLAIMS
from tests.documents.differences import APPLIED, WITHOUT_CELLS
from tests.documents.oracle.domain import devices_mb
from tests.documents.oracle.host_numbers import host_numbers
from tests.documents.source import DOMAINS, folders, require_equal

FOLDERS = folders(*DOMAINS)
NOON = datetime(2030, 1, 1, tzinfo=UTC)
SCHEMA = etree.RelaxNG(etree.parse("/usr/share/libvirt/schemas/domain.rng"))
#: What a claim names of its host: all of it is in the document that it makes of an empty one.
OWN = {
    name: host_numbers(ElementTree.fromstring(apply("<domain><devices/></domain>", claim)))
    for name, claim in CLAIMS.items()
}


@pytest.fixture(scope="module")
def connection():
    """libvirt's test driver, which parses a document and keeps it."""
    libvirt.registerErrorHandler(lambda *_: None, None)
    virt = libvirt.open("test:///default")
    yield virt
    virt.close()


def schema_error(document):
    if SCHEMA.validate(etree.fromstring(document)):
        return ""
    return f"libvirt's schema: {', '.join(error.message for error in SCHEMA.error_log)}"


def refusal(connection, domain, memory_mb):
    """Return libvirt's error; "": it takes the domain, whose memory and names are replaced.

    :param memory_mb: the sizes of the memory, which the caller writes.
    """
    domain.set("type", "test")
    for tag in ("uuid", "name", "currentMemory", "memory"):
        for element in domain.findall(tag):
            domain.remove(element)
    ElementTree.SubElement(domain, "name").text = "guest"
    ElementTree.SubElement(domain, "memory", unit="MiB").text = str(memory_mb)
    for element in domain.findall("maxMemory"):
        element.set("unit", "TiB")
        element.text = "1"
    try:
        connection.defineXML(ElementTree.tostring(domain, encoding="unicode")).undefine()
    except libvirt.libvirtError as error:
        return f"libvirt: {error}"
    return ""


def left(domain, own):
    """Return what the domain names of a host and the claim does not."""
    names = host_numbers(domain)
    return {kind: names[kind] - own[kind] for kind in names if names[kind] - own[kind]}


def difference(domain, claim):
    """Return where a claim, beside the domain that it made, differs from it; "": nowhere.

    The memory of the domain is replaced.
    """
    for memory in domain.findall("memory"):  # whose size the caller writes
        memory.set("unit", "MiB")
        memory.text = str(claim.flavor.memory_mb)
    xml = ElementTree.tostring(domain, encoding="unicode")
    found = compare(claim, (), DomainDocument(xml=xml, at=NOON))
    return found.problem or "; ".join(
        f"{line.claim.strip()} is {line.domain.strip()}"
        for line in found.lines
        if line.claim != line.domain
    )


def problems(connection, document, claim, own):
    """Yield what is wrong with the document that a claim makes of another one."""
    try:
        applied = apply(document, claim)
    except BadDocument as error:
        yield f"refused: {error}"
        return
    if apply(applied, claim) != applied:
        yield "applied again, it changes"
    domain = ElementTree.fromstring(applied)
    if names := left(domain, own):
        yield f"it still names {names}"
    memory_mb = claim.flavor.memory_mb + devices_mb(domain)
    yield difference(domain, claim)
    # An error that the document had before is not the claim's.
    if (invalid := schema_error(applied)) and not schema_error(document):
        yield invalid
    refused = refusal(connection, domain, memory_mb)
    if refused and not refusal(connection, ElementTree.fromstring(document), memory_mb):
        yield refused


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("kind", CLAIMS)
def test_a_claim_makes_a_guest_of_any_domain(kind, folder, connection):
    def judge(document):
        text = ElementTree.tostring(document, encoding="unicode")
        return "; ".join(filter(None, problems(connection, text, CLAIMS[kind], OWN[kind])))

    has_cells = CLAIMS[kind].numa_topology.cells
    require_equal(FOLDERS[folder], judge, APPLIED if has_cells else WITHOUT_CELLS)
