"""Compare the guest that a claim determines with the document of its domain. Pure.

Only what a claim determines is compared. libvirt writes some of it in another order and in other
units than a claim does, so both sides are brought into one form first.
"""

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from lxml import etree

from rtagent.model.claim import Claim
from rtagent.model.cpuset import BadCpuSet, format_cpu_spec, parse_cpu_spec
from rtagent.model.guest import ComparedLine, DomainDocument, GuestComparison, LineMark
from rtagent.model.units import BYTES_IN_KIB
from rtagent.virt.libvirt import guest
from rtagent.virt.libvirt.document import BadDocument, in_bytes, parse
from rtagent.virt.libvirt.domain import all_pinned
from rtagent.virt.libvirt.given_devices import assigns

#: Children of ``<domain>`` that are compared, in the order in which they are shown: the whole
#: element, or these children of it.
_COMPARED: dict[str, tuple[str, ...]] = {
    "maxMemory": (),
    "memory": (),
    "memoryBacking": ("hugepages", "nosharepages", "locked", "source", "access", "allocation"),
    "vcpu": (),
    "cputune": ("vcpupin", "emulatorpin", "iothreadpin", "vcpusched"),
    "numatune": ("memory", "memnode"),
    "cpu": ("topology", "numa"),
    "launchSecurity": ("cbitpos", "reducedPhysBits", "policy"),
}
#: Attributes of these elements that libvirt adds, and that no claim determines.
_ADDED: dict[str, tuple[str, ...]] = {
    "vcpu": ("current", "placement"),
    "maxMemory": ("slots",),
    "topology": ("dies", "clusters"),
    "cpu": ("mode", "match", "check", "migratable"),
}
#: Parts that are joined if they differ in this attribute only.
_JOINED = {"vcpusched": "vcpus", "page": "nodeset"}
#: Attributes that identify an element among those of its tag.
_IDENTIFYING = ("vcpu", "iothread", "id", "cellid")
#: Children that libvirt or the caller adds to an assigned device.
_DEVICE_PARTS = frozenset({"source", "target"})
#: Elements whose value has a unit, and the attribute with the value ("": the text).
_SIZED = {"memory": "", "maxMemory": "", "cell": "memory", "page": "size", "size": ""}
#: Lines of both sides together up to which they are aligned. It takes a time that grows with the
#: square of their number.
MAX_LINES = 6_000


def compare(
    claim: Claim, attached: Sequence[Claim], domain: DomainDocument | None
) -> GuestComparison:
    """Compare a guest with its domain.

    :param claim: the guest's main claim. :param attached: its attach claims.
    :param domain: None: there is none, so the claim is shown alone.
    """
    if domain is None:
        return GuestComparison(lines=_alone(claim, attached))
    try:
        actual = parse(domain.xml)
        expected = parse(guest.apply(domain.xml, claim, attached))
        if expected.find("maxMemory") is None:
            _set_memory(expected, claim.flavor.memory_mb)
        ours, theirs = _lines(_form(expected)), _lines(_form(actual))
    except BadDocument as error:
        problem = f"The document of the domain cannot be compared: {error}"
        return GuestComparison(lines=_alone(claim, attached), domain=domain, problem=problem)
    if len(ours) + len(theirs) > MAX_LINES:
        problem = "The documents are too long to be compared."
        return GuestComparison(lines=_alone(claim, attached), domain=domain, problem=problem)
    return GuestComparison(lines=tuple(_aligned(ours, theirs)), domain=domain)


def _alone(claim: Claim, attached: Sequence[Claim]) -> tuple[ComparedLine, ...]:
    domain = etree.Element("domain")
    domain.extend(guest.children(claim))
    devices = domain.find("devices")
    for each in attached:
        if devices is None:
            devices = etree.SubElement(domain, "devices")
        devices.extend(guest.devices(each))
    return tuple(ComparedLine(mark=LineMark.SAME, claim=line) for line in _lines(domain))


def _aligned(ours: Sequence[str], theirs: Sequence[str]) -> Iterator[ComparedLine]:
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        left, right = ours[first:last], theirs[other_first:other_last]
        for at in range(max(len(left), len(right))):
            claim = left[at] if at < len(left) else ""
            domain = right[at] if at < len(right) else ""
            if tag == "equal":
                mark = LineMark.SAME
            elif claim and domain:
                mark = LineMark.DIFFERENT
            else:
                mark = LineMark.ONLY_CLAIM if claim else LineMark.ONLY_DOMAIN
            yield ComparedLine(mark=mark, claim=claim, domain=domain)


def _lines(root: etree._Element) -> list[str]:
    etree.indent(root)
    return etree.tostring(root, encoding="unicode").splitlines()


# -- one form ------------------------------------------------------------------------------------


def _form(domain: etree._Element) -> etree._Element:
    """Return the compared part of a document, in the form that both sides have."""
    made = etree.Element("domain")
    for tag, parts in _COMPARED.items():
        for element in domain.findall(tag):
            copy = _copied(element, parts)
            if tag == "vcpu" and all_pinned(domain, domain.findall("cputune/*")):
                copy.attrib.pop("cpuset", "")  # no thread runs there: Nova leaves it out
            if len(copy) or copy.text or not parts:
                made.append(copy)
    devices = [_device(each) for each in domain.iterfind("devices/*") if assigns(each)]
    if devices:
        parent = etree.SubElement(made, "devices")
        parent.extend(sorted(devices, key=_key))
    return made


def _copied(element: etree._Element, parts: Sequence[str] = ()) -> etree._Element:
    """Copy an element with sorted children and attributes, and with sizes in KiB.

    :param parts: the tags of the children that are copied; empty: all.
    """
    ignored = _ADDED.get(str(element.tag), ())
    attributes = {str(name): str(value) for name, value in element.attrib.items()}
    text = (element.text or "").strip()
    if element.tag in _SIZED and ("unit" in attributes or not _SIZED[str(element.tag)]):
        attributes, text = _in_kib(element, attributes, text)
    copy = etree.Element(element.tag)
    for name in sorted(attributes.keys() - set(ignored)):
        copy.set(name, attributes[name])
    copy.text = text or None
    children = [_copied(each) for each in element if not parts or each.tag in parts]
    copy.extend(sorted(_joined(children), key=_key))
    return copy


def _joined(parts: Iterable[etree._Element]) -> Iterable[etree._Element]:
    """Make one element of those that differ in their numbers only. libvirt writes a scheduler for
    each vCPU, and Nova a size of pages for each guest cell.
    """
    joined: dict[object, etree._Element] = {}
    for part in parts:
        numbers = _JOINED.get(str(part.tag))
        same = frozenset(item for item in part.items() if item[0] != numbers)
        first = joined.setdefault((part.tag, same) if numbers else part, part)
        if numbers and first is not part:
            first.set(numbers, _union(first.get(numbers, ""), part.get(numbers, "")))
    return joined.values()


def _union(first: str, second: str) -> str:
    try:
        return format_cpu_spec(parse_cpu_spec(second, parse_cpu_spec(first)))
    except BadCpuSet as error:
        raise BadDocument(str(error)) from error


def _in_kib(
    element: etree._Element, attributes: dict[str, str], text: str
) -> tuple[dict[str, str], str]:
    name = _SIZED[str(element.tag)]
    value = attributes.get(name, "") if name else text
    if not value:
        return attributes, text
    size = str(in_bytes(element, value, f"<{element.tag}>") // BYTES_IN_KIB)
    attributes = {**attributes, "unit": "KiB"}
    return ({**attributes, name: size}, text) if name else (attributes, size)


def _device(element: etree._Element) -> etree._Element:
    copy = etree.Element(element.tag)
    for name in sorted({"type", "managed", "model"} & set(map(str, element.attrib))):
        copy.set(name, str(element.get(name)))
    copy.extend(_copied(each) for each in element if each.tag in _DEVICE_PARTS)
    return copy


def _key(element: etree._Element) -> tuple[str, list[tuple[int, str]]]:
    """Sort by tag, then by what identifies the element, then by the rest; numbers by value."""
    attributes = {str(name): str(value) for name, value in element.attrib.items()}
    first = [attributes.pop(name, "") for name in _IDENTIFYING]
    inner = [str(value) for each in element.iterdescendants() for value in each.attrib.values()]
    values = (*first, *attributes.values(), element.text or "", *inner)
    return str(element.tag), [_order(value) for value in values]


def _order(value: str) -> tuple[int, str]:
    number = value.isascii() and value.isdecimal() and len(value) < 19
    return (int(value), "") if number else (-1, value)


def _set_memory(domain: etree._Element, memory_mb: int) -> None:
    """Write the memory of the flavor, which `guest.apply` leaves to the caller."""
    for element in domain.findall("memory"):
        element.set("unit", "MiB")
        element.text = str(memory_mb)
