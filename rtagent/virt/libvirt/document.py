"""Safe parsing of libvirt's XML documents, of which a part may be unreadable. HostFacts: what the
host says about the names and sizes in them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from lxml import etree
from lxml.builder import E as maker

from rtagent.model.address import LIMITS, BadAddress, make_address
from rtagent.model.base import Value
from rtagent.model.cpuset import BadCpuSet, parse_cpu_spec
from rtagent.model.device import Mdev
from rtagent.model.domain_usage import HostResource
from rtagent.model.topology import Cell
from rtagent.model.units import LIBVIRT_UNITS

# Do not resolve entities or fetch anything: a domain document may come from an untrusted caller.
_parser = partial(etree.XMLParser, resolve_entities=False, no_network=True, remove_comments=True)
_PARSER = _parser()
#: For text, which is decoded already: an encoding that it declares is ignored.
_TEXT_PARSER = _parser(encoding="utf-8")

#: The largest number that is accepted: the largest integer of a database.
LARGEST = 2**63 - 1
#: The longest text that is accepted: the longest name of a database.
MAX_TEXT = 255
#: The longest message about a document, which may quote a value of any length.
_MAX_MESSAGE = 300
#: A number with a prefix, as C's strtoul reads it: hexadecimal, octal or decimal. libvirt reads the
#: attributes of PCI addresses so.
_PREFIXED = re.compile(r"\s*\+?(?:0[xX]([0-9a-fA-F]{1,16})|0([0-7]{0,21})|([1-9][0-9]{0,18}))")

_T = TypeVar("_T")
_R = TypeVar("_R")


class Builder(Protocol):
    """Makes elements: ``E.memory("64", unit="MiB")``, and ``E("class", child)``."""

    def __getattr__(self, tag: str) -> Callable[..., etree._Element]: ...

    def __call__(self, tag: str, *content: Any, **attributes: str) -> etree._Element: ...


E: Builder = maker


class BadDocument(Exception):
    """The document is invalid; the message says where."""

    def __init__(self, message: str) -> None:
        short = message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}..."
        super().__init__(short)


def parse(document: str | bytes) -> etree._Element:
    """Return the root element.

    :raises BadDocument: the document is not well-formed, or declares entities, which no document
        of libvirt does.
    """
    try:
        if isinstance(document, str):
            root = etree.fromstring(document.encode(), _TEXT_PARSER)
        else:
            root = etree.fromstring(document, _PARSER)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise BadDocument(f"not well-formed: {error}") from error
    if root.getroottree().docinfo.internalDTD is not None:
        raise BadDocument("not well-formed: it has a document type declaration")
    return root


def received(call: Callable[[], str]) -> str:
    """Return the document that a call of libvirt returns.

    :raises BadDocument: it is not in UTF-8. :raises libvirt.libvirtError:
    """
    try:
        return call()
    except UnicodeDecodeError as error:
        raise BadDocument(f"not well-formed: {error}") from error


def child(element: etree._Element, tag: str) -> etree._Element | None:
    """Return the first child with this tag. It is faster than `find`, which parses a path."""
    return next(element.iterchildren(tag), None)


def text(element: etree._Element, path: str, default: str | None = None) -> str:
    """Return the stripped text of the element at `path`.

    :raises BadDocument: the text is longer than `MAX_TEXT`; or it is missing or empty, and no
        default was given.
    """
    found = (element.findtext(path) or "").strip()
    if len(found) > MAX_TEXT:
        raise BadDocument(f"<{path}> of <{element.tag}> has more than {MAX_TEXT} characters")
    if not found and default is None:
        raise BadDocument(f"<{element.tag}> has no <{path}>")
    return found or default or ""


def attribute(element: etree._Element, name: str) -> str:
    """Return an attribute; "" without it. :raises BadDocument: it is longer than `MAX_TEXT`."""
    value = element.get(name, "")
    if len(value) > MAX_TEXT:
        raise BadDocument(f"<{element.tag} {name}> has more than {MAX_TEXT} characters")
    return value


def integer(value: str | None, where: str, most: int = LARGEST) -> int:
    """Return a non-negative integer.

    :raises BadDocument: the value is not one, or is more than `most`.
    """
    digits = "" if value is None else value.strip()
    if not (digits.isascii() and digits.isdecimal()):
        raise BadDocument(f"{where} is {value!r}, not a number")
    digits = digits.lstrip("0") or "0"
    # Python refuses to convert a number of several thousand digits.
    if len(digits) > len(str(most)) or int(digits) > most:
        raise BadDocument(f"{where} is {digits}: it must be at most {most}")
    return int(digits)


def numbers(value: str | None, where: str) -> frozenset[int]:
    """Return the numbers of a list of CPUs or cells: ``0-3,^2,8``.

    :raises BadDocument: the value is not one.
    """
    try:
        return parse_cpu_spec(value or "")
    except BadCpuSet as error:
        raise BadDocument(f"{where}: {error}") from error


def prefixed(value: str, where: str) -> int:
    """Return a non-negative integer that is hexadecimal (``0x10``), octal (``010``) or decimal.

    :raises BadDocument: the value is not one.
    """
    found = _PREFIXED.fullmatch(value) if value.isascii() else None
    if found is None:
        raise BadDocument(f"{where} is {value!r}, not a number")
    hexadecimal, octal, decimal = found.groups()
    if decimal:
        return int(decimal)
    return int(hexadecimal, 16) if hexadecimal else int(octal or "0", 8)


def pci_address(element: etree._Element, where: str) -> str:
    """Return the PCI address in the attributes of an element. An absent attribute is 0.

    :raises BadDocument: the address is invalid.
    """
    fields = [prefixed(element.get(name, "0"), f"{where}: {name}") for name in LIMITS]
    try:
        return str(make_address(*fields))
    except BadAddress as error:
        raise BadDocument(f"{where}: {error}") from error


def enum(element: etree._Element, path: str) -> frozenset[str]:
    """Return the values of the ``<enum>`` at `path`; empty without one."""
    return frozenset(value.text or "" for value in element.iterfind(f"{path}/value"))


def in_bytes(element: etree._Element, value: str | None, where: str) -> int:
    """Convert `value` to bytes from the element's ``unit`` (default KiB).

    :raises BadDocument: the value is not a number or too large, or the unit is unknown.
    """
    unit = element.get("unit", "KiB")
    size = LIBVIRT_UNITS.get(unit.lower())
    if size is None:
        raise BadDocument(f"{where}: {unit!r} is not a unit of memory")
    return integer(value, where, LARGEST // size) * size


class Unread:
    """Collects what cannot be read of one document, so that the rest of it still counts.

    :ivar kinds: the host resources of the domain that are unknown for this reason.
    :ivar problems: one text for each item, which names its element.
    """

    def __init__(self) -> None:
        self.kinds: set[HostResource] = set()
        self.problems: list[str] = []

    def each(
        self, read: Callable[[_T], _R], items: Iterable[_T], *kinds: HostResource
    ) -> Iterator[_R]:
        """Yield what `read` returns for each item, without those that cannot be read.

        :param kinds: what is unknown if an item cannot be read.
        """
        for item in items:
            try:
                yield read(item)
            except BadDocument as error:
                self.add(str(error), *kinds)

    def add(self, problem: str, *kinds: HostResource) -> None:
        """Note an item, and what is unknown because of it."""
        self.kinds.update(kinds)
        self.problems.append(problem)

    def check(self) -> None:
        """:raises BadDocument: an item could not be read; it names the first."""
        if self.problems:
            raise BadDocument(self.problems[0])


class HostFacts(Value, frozen=True, kw_only=True):
    """The host as of the last observation. What could not be read is empty.

    :ivar online: the host's CPUs. :ivar cells: its NUMA nodes.
    :ivar hugepage_kib: the size of the pages of a guest that names no size (the kernel's default);
        None: unknown.
    :ivar vdpas: addresses of the PCI devices that have vDPA devices, by the path of the latter;
        None: no PCI device has it.
    :ivar interfaces: addresses of PCI devices, by the name of their network interface; None: the
        interface is of no PCI device.
    :ivar namespaces: names of persistent memory namespaces, by path; None: they could never be
        listed.
    :ivar mdevs: mediated devices of PCI devices, by uuid.
    :ivar other_mdevs: uuids of mediated devices that have another parent, which no claim has.
    """

    online: frozenset[int] = frozenset()
    cells: tuple[Cell, ...] = ()
    hugepage_kib: int | None = None
    vdpas: Mapping[str, str | None] = {}
    interfaces: Mapping[str, str | None] = {}
    namespaces: Mapping[str, str] | None = {}
    mdevs: Mapping[str, Mdev] = {}
    other_mdevs: frozenset[str] = frozenset()

    def of_no_pci_device(self, mdevs: Iterable[str], vdpas: Iterable[str]) -> Iterator[str]:
        """Yield the uuids and paths that are of no PCI device, so that no claim has them."""
        yield from self.other_mdevs.intersection(mdevs)
        yield from (path for path in vdpas if self.vdpas.get(path, "") is None)

    @property
    def cell_ids(self) -> frozenset[int]:
        """The ids of its NUMA nodes."""
        return frozenset(cell.id for cell in self.cells)

    def confines(self, cpus: frozenset[int]) -> bool:
        """Return whether a thread that is pinned to these CPUs cannot run on some of the host's.
        While those are unknown, it cannot.
        """
        return bool(cpus) and (not self.online or bool(self.online - cpus))

    @property
    def page_sizes(self) -> tuple[int, ...]:
        """The sizes (KiB) of the host's pages, smallest first."""
        return tuple(sorted({size for cell in self.cells for size in cell.pages}))

    def pages(self, cell_id: int, size: int) -> int:
        """Return the number of pages of a size that a cell has."""
        return sum(cell.pages.get(size, 0) for cell in self.cells if cell.id == cell_id)
