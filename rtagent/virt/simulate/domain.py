"""Build a domain document for a simulated host."""

from __future__ import annotations

from lxml import etree
from lxml.builder import E

_TEST = "http://libvirt.org/schemas/domain/test/1.0"
_RUN_STATE = f"{{{_TEST}}}runstate"
#: libvirt's virDomainState of a domain that is defined and does not run.
SHUT_OFF = "5"


def domain_xml(
    uuid: str, *, vcpus: int, memory_mb: int, name: str | None = None, active: bool = True
) -> str:
    """Return the document of a domain of that size, running unless `active` is False.

    :param memory_mb: MB. :param name: default: the uuid.
    """
    domain = E.domain(
        E.name(name or uuid),
        E.uuid(uuid),
        E.memory(str(memory_mb), unit="MiB"),
        E.vcpu(str(vcpus)),
        E.os(E.type("hvm", arch="x86_64")),
        type="test",
    )
    if not active:
        set_run_state(domain, SHUT_OFF)
    return etree.tostring(domain, encoding="unicode", pretty_print=True)


def run_state(domain: etree._Element) -> str:
    """Return the state that a domain document has for libvirt's test driver; "": running."""
    return (domain.findtext(_RUN_STATE) or "").strip()


def set_run_state(domain: etree._Element, state: str) -> None:
    """Replace that state."""
    for element in domain.findall(_RUN_STATE):
        domain.remove(element)
    if state:
        element = etree.SubElement(domain, _RUN_STATE, nsmap={"test": _TEST})
        element.text = state
