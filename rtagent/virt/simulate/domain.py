"""Build a domain document for a simulated host."""

from __future__ import annotations

from lxml import etree
from lxml.builder import E

_TEST = "http://libvirt.org/schemas/domain/test/1.0"
_SHUT_OFF = "5"  # libvirt's virDomainState


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
        state = etree.SubElement(domain, f"{{{_TEST}}}runstate", nsmap={"test": _TEST})
        state.text = _SHUT_OFF
    return etree.tostring(domain, encoding="unicode", pretty_print=True)
