"""The domain document that enacts a claim: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from lxml import etree

from rtagent.model.assignment import Assignment
from rtagent.model.claim import ATTACH
from rtagent.model.device import AssignedDevice
from rtagent.model.flavor import Flavor
from rtagent.model.specific import SpecificUnit
from rtagent.virt.libvirt import guest_numa
from rtagent.virt.libvirt.document import BadDocument, parse
from rtagent.virt.libvirt.guest_buses import put_buses
from rtagent.virt.libvirt.guest_devices import (
    device_elements,
    mdev_document,
    mdev_elements,
    near,
    put_devices,
)

#: What of a domain's children is the claim's: the whole element, or the children named.
_OWNED: dict[str, tuple[str, ...]] = {
    "vcpu": (),
    "cputune": ("vcpupin", "emulatorpin", "vcpusched"),
    "numatune": ("memory", "memnode"),
    "cpu": ("topology", "numa"),
    "memoryBacking": ("hugepages", "nosharepages", "locked"),
}


class Granted(Protocol):
    """What is read of a claim."""

    @property
    def kind(self) -> str: ...

    @property
    def node_uuid(self) -> str: ...

    @property
    def flavor(self) -> Flavor: ...

    @property
    def numa_topology(self) -> Assignment | None: ...

    @property
    def pci(self) -> Sequence[AssignedDevice]: ...

    @property
    def resources(self) -> Sequence[SpecificUnit]: ...


def children(claim: Granted) -> tuple[etree._Element, ...]:
    """The ``<domain>`` children that enact it: of a claim that adds devices, these alone."""
    given = devices(claim)
    alone = () if claim.kind == ATTACH else _places(claim)
    if not given:
        return alone
    element = etree.Element("devices")
    element.extend(given)
    return (*alone, element)


def devices(claim: Granted) -> tuple[etree._Element, ...]:
    """The children of ``<devices>`` that give the guest what it holds: PCI devices, then mediated
    ones."""
    mdevs = (unit for unit in claim.resources if unit.provider)
    return (*device_elements(claim.pci), *mdev_elements(claim.node_uuid, mdevs))


def _places(claim: Granted) -> tuple[etree._Element, ...]:
    """CPUs, cells and pages."""
    assignment = claim.numa_topology or Assignment()
    parts = {
        "memoryBacking": guest_numa.memory_backing(assignment),
        "cputune": guest_numa.cputune(assignment),
        "numatune": guest_numa.numatune(assignment),
        "cpu": guest_numa.cpu(assignment),
    }
    whole = [guest_numa.vcpu(assignment, claim.flavor.vcpus)]
    for tag, inner in parts.items():
        element = etree.Element(tag)
        element.extend(inner)
        whole += [element] if len(element) else []
    return tuple(whole)


def xml(claim: Granted) -> str:
    """The same as text: what `apply` merges, for whoever writes domain documents otherwise."""
    return "".join(etree.tostring(child, encoding="unicode") for child in children(claim))


def node_devices(claim: Granted) -> tuple[str, ...]:
    """Documents of the mediated devices that are to be created before the guest is started
    (libvirt's ``virNodeDeviceCreateXML``)."""
    return tuple(
        etree.tostring(mdev_document(claim.node_uuid, unit), encoding="unicode")
        for unit in claim.resources
        if unit.provider
    )


def apply(domain_xml: str, claim: Granted, attached: Iterable[Granted] = ()) -> str:
    """A whole domain document with the claim's part in it: what it says of the same things goes,
    and everything else stays. Applying a claim again changes nothing.

    :param attached: claims that have added devices to the guest; devices of the same kinds that no
        claim gives it go.
    :raises BadDocument: it is not a domain's.
    """
    domain = parse(domain_xml)
    if domain.tag != "domain":
        raise BadDocument(f"it is a <{domain.tag}>, not a <domain>")
    for tag, owned in _OWNED.items():
        _clear(domain, tag, owned)
    for child in _places(claim):
        _put(domain, child)
    every = (claim, *attached)
    put_devices(domain, (each for one in every for each in devices(one)))
    given = [device for one in every for device in one.pci]
    put_buses(domain, claim.numa_topology or Assignment(), list(near(domain, given)))
    etree.indent(domain)
    return etree.tostring(domain, encoding="unicode")


def _clear(domain: etree._Element, tag: str, owned: tuple[str, ...]) -> None:
    for element in domain.findall(tag):
        for inner in [inner for inner in element if inner.tag in owned]:
            element.remove(inner)
        if not owned or not (len(element) or element.attrib):
            domain.remove(element)


def _put(domain: etree._Element, child: etree._Element) -> None:
    there = domain.find(child.tag)
    if there is not None:
        there.extend(child)
        return
    after = domain.find("os")
    domain.insert(len(domain) if after is None else domain.index(after), child)
