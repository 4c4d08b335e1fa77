"""The content of a host file and its changes, and documents of simulated domains. Pure."""

from collections.abc import Iterable
from uuid import UUID

from lxml import etree

from rtagent.errors import RtAgentError
from rtagent.virt.libvirt.document import BadDocument, E, parse

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
    _switch(domain, active)
    return etree.tostring(domain, encoding="unicode", pretty_print=True)


def _switch(domain: etree._Element, active: bool) -> None:
    """Replace the state that a domain document has for libvirt's test driver. None: running."""
    for element in domain.findall(_RUN_STATE):
        domain.remove(element)
    if not active:
        element = etree.SubElement(domain, _RUN_STATE, nsmap={"test": _TEST})
        element.text = SHUT_OFF


class SimulationError(RtAgentError):
    """A simulated host cannot be created or changed as requested; the message names the remedy."""

    expected = True


class World:
    """The document of a host file: hardware, domains and node devices."""

    def __init__(self, root: etree._Element) -> None:
        self._root = root
        self._domains = {_uuid(_text(each, "uuid")): each for each in root.iterfind("domain")}
        self._names = {_text(each, "name") for each in self._domains.values()}
        self._devices = {_text(each, "name"): each for each in root.iterfind("device")}

    def add_domain(self, document: str | bytes) -> str:
        """Add a domain; return its uuid.

        :raises SimulationError: the document is invalid, or the domain exists already.
        """
        domain = _item(document, "domain")
        if domain.get("type") != "test":
            raise SimulationError(
                f"the domain's type is {domain.get('type')!r}: a simulated host runs"
                " <domain type='test'>"
            )
        name, uuid = _text(domain, "name"), _uuid(_text(domain, "uuid"))
        if uuid in self._domains:
            raise SimulationError(f"domain {uuid} exists already: remove it first")
        if name in self._names:
            raise SimulationError(f"a domain named {name!r} exists already: rename this one")
        self._domains[uuid] = domain
        self._names.add(name)
        self._root.append(domain)
        return uuid

    def put_domain(self, document: str | bytes) -> str:
        """Add a domain that is shut off, or replace its definition in the state that it has.

        :raises SimulationError: the document is invalid, or another domain has its name.
        """
        uuid = _uuid(_text(_item(document, "domain"), "uuid"))
        old, active = self._domains.get(uuid), bool(self.is_active(uuid))
        place = len(self._root) if old is None else self._root.index(old)
        if old is not None:
            self.remove_domain(uuid)
        self.add_domain(document)
        self._root.insert(place, self._domains[uuid])
        self.set_active(uuid, active)
        return uuid

    def domain(self, uuid: str) -> str | None:
        """Return the document of a domain, or None."""
        found = self._domains.get(_uuid(uuid))
        return None if found is None else etree.tostring(found, encoding="unicode")

    def is_active(self, uuid: str) -> bool | None:
        """Return whether a domain runs; None: there is no such domain."""
        found = self._domains.get(_uuid(uuid))
        return None if found is None else (found.findtext(_RUN_STATE) or "").strip() != SHUT_OFF

    def set_active(self, uuid: str, active: bool) -> None:
        """Start a domain or switch it off. :raises SimulationError: there is no such domain."""
        _switch(self._known(uuid), active)

    def remove_domain(self, uuid: str) -> None:
        """Remove a domain. :raises SimulationError: there is no such domain."""
        domain = self._known(uuid)
        del self._domains[_uuid(uuid)]
        self._names.remove(_text(domain, "name"))
        self._root.remove(domain)

    def _known(self, uuid: str) -> etree._Element:
        domain = self._domains.get(_uuid(uuid))
        if domain is None:
            raise SimulationError(f"no domain has the uuid {uuid}: {_listed(self._domains)}")
        return domain

    @property
    def device_names(self) -> tuple[str, ...]:
        """The names of all devices."""
        return tuple(self._devices)

    def add_device(self, document: str | bytes) -> str:
        """Add a device; return its name.

        :raises SimulationError: the document is invalid, or the device exists already.
        """
        device = _item(document, "device")
        name = _text(device, "name")
        if name in self._devices:
            raise SimulationError(f"a device named {name!r} exists already: remove it first")
        self._devices[name] = device
        self._root.append(device)
        return name

    def remove_device(self, name: str) -> None:
        """Remove a device. :raises SimulationError: there is no such device."""
        device = self._devices.pop(name, None)
        if device is None:
            raise SimulationError(f"no device is named {name!r}: {_listed(self._devices)}")
        self._root.remove(device)


def _item(document: str | bytes, tag: str) -> etree._Element:
    try:
        root = parse(document)
    except BadDocument as error:
        raise SimulationError(f"the {tag} document is {error}") from error
    if root.tag != tag:
        raise SimulationError(f"the document is a <{root.tag}>, not a <{tag}>")
    return root


def _text(element: etree._Element, tag: str) -> str:
    found = (element.findtext(tag) or "").strip()
    if not found:
        raise SimulationError(
            f"the {element.tag} has no <{tag}>: add one, so that it keeps its identity"
        )
    return found


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError as error:
        raise SimulationError(f"{text!r} is not a uuid") from error


def _listed(names: Iterable[str]) -> str:
    known = sorted(names)
    if not known:
        return "there are none"
    more = f" and {len(known) - 5} more" if len(known) > 5 else ""
    return f"there are {', '.join(known[:5])}{more}"
