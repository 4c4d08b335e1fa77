"""A claim beside the domains that it made of documents of others."""

from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from rtagent.model.guest import DomainDocument
from rtagent.virt.libvirt.comparison import compare
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.guest import apply
from tests.documents.claims import CLAIMS
from tests.documents.source import DOMAINS, folders, require_equal

FOLDERS = folders(*DOMAINS)
NOON = datetime(2030, 1, 1, tzinfo=UTC)


def made(document, claim):
    """Return the domain that a caller makes of a document: it writes the size of the memory."""
    domain = ElementTree.fromstring(apply(document, claim))
    for memory in domain.findall("memory"):
        memory.set("unit", "MiB")
        memory.text = str(claim.flavor.memory_mb)
    return DomainDocument(xml=ElementTree.tostring(domain, encoding="unicode"), at=NOON)


def difference(document, claim):
    try:
        domain = made(ElementTree.tostring(document, encoding="unicode"), claim)
    except BadDocument:  # test_guests.py has these
        return ""
    found = compare(claim, (), domain)
    return found.problem or "; ".join(
        f"{line.claim.strip()} is {line.domain.strip()}"
        for line in found.lines
        if line.claim != line.domain
    )


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("kind", CLAIMS)
def test_what_a_claim_made_does_not_differ_from_it(kind, folder):
    require_equal(FOLDERS[folder], lambda document: difference(document, CLAIMS[kind]), {})
