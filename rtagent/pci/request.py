"""What a claim asks for: the flavor's aliases and the documents that came with the instance."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from rtagent.errors import InvalidPciRequest, PciRequestAliasNotDefined
from rtagent.model.alias import Alias, Aliases
from rtagent.model.base import MAX_INT, Value
from rtagent.model.device import LEGACY, Source
from rtagent.model.flavor import Flavor
from rtagent.model.instance import PciRequest
from rtagent.model.wanted import Wanted
from rtagent.pci.wanted import parse_wanted
from rtagent.pci.words import BadWord

EXTRA_SPEC = "pci_passthrough:alias"
FLAVOR_ALIAS: Final = "flavor_alias"
NEUTRON_PORT: Final = "neutron_port"


class DeviceRequest(Value, frozen=True, kw_only=True):
    """So many devices, all of one kind.

    :ivar request_id: the caller's, or made of the alias's name.
    :ivar alternatives: any device that is one of these will do.
    :ivar numa_policy: never left open.
    """

    request_id: str
    count: int
    alternatives: tuple[Wanted, ...]
    numa_policy: str = LEGACY
    alias_name: str | None = None
    requester_id: str | None = None
    source: Source = FLAVOR_ALIAS

    @property
    def purpose(self) -> str:
        """As `AssignedDevice.purpose`."""
        return self.alias_name or self.request_id

    @property
    def resource(self) -> str:
        """Its name in a refusal."""
        return f"PCI {self.alias_name or ' or '.join(map(str, self.alternatives))}"


def device_requests(
    flavor: Flavor, documents: Sequence[PciRequest], aliases: Aliases, numa_policy: str | None
) -> tuple[DeviceRequest, ...]:
    """Every request of a build, the flavor's first.

    A caller may have put the flavor's aliases into documents already, as Nova's conductor does:
    such a request counts once.

    :param numa_policy: ``hw:pci_numa_affinity_policy`` of flavor or image, which beats an alias's
        and is beaten by a request's own.
    :raises PciRequestAliasNotDefined: InvalidPciRequest:
    """
    named = list(_named(flavor))
    told = [document for document in documents if _tells(document, named)]
    _agree(named, told)
    by_alias = {document.alias_name: document for document in told}
    derived = (
        _of_flavor(_alias(aliases, name, EXTRA_SPEC), count, by_alias.get(name), numa_policy)
        for name, count in named
    )
    others = (document for document in documents if document not in told)
    return _distinct([*derived, *(_of_document(each, aliases, numa_policy) for each in others)])


def moved_requests(
    flavor: Flavor, documents: Sequence[PciRequest], aliases: Aliases, numa_policy: str | None
) -> tuple[DeviceRequest, ...]:
    """Every request of a move: what the ports ask for stays, the rest is the new flavor's alone
    (LP1983753: the old flavor's were looked at).

    :raises PciRequestAliasNotDefined: InvalidPciRequest:
    """
    ports = [document for document in documents if document.source == NEUTRON_PORT]
    return device_requests(flavor, ports, aliases, numa_policy)


def attached_requests(
    documents: Sequence[PciRequest], aliases: Aliases, numa_policy: str | None
) -> tuple[DeviceRequest, ...]:
    """Requests for devices to be added to a guest: what is said, and nothing of its flavor's.

    :raises PciRequestAliasNotDefined: InvalidPciRequest:
    """
    return _distinct([_of_document(document, aliases, numa_policy) for document in documents])


def _named(flavor: Flavor) -> Iterator[tuple[str, int]]:
    """``name:count[,name:count]``."""
    text = flavor.extra_specs.get(EXTRA_SPEC, "")
    for part in text.split(",") if text else ():
        name, _, count = part.rpartition(":")
        number = count.strip()
        if not name.strip() or not (number.isascii() and number.isdecimal()):
            raise _invalid(EXTRA_SPEC, text, "must be name:count[,name:count]")
        if not 1 <= int(number[:11]) <= MAX_INT:
            raise _invalid(EXTRA_SPEC, text, f"a count must be from 1 to {MAX_INT}")
        yield name.strip(), int(number)


def _tells(document: PciRequest, named: Iterable[tuple[str, int]]) -> bool:
    names = {name for name, _ in named}
    return document.source == FLAVOR_ALIAS and document.alias_name in names


def _agree(named: Sequence[tuple[str, int]], told: Sequence[PciRequest]) -> None:
    for name in dict.fromkeys(document.alias_name for document in told):
        theirs = sum(document.count for document in told if document.alias_name == name)
        flavors = sum(count for other, count in named if other == name)
        if theirs != flavors:
            rule = f"the flavor asks for {flavors} of that alias"
            raise _invalid(f"pci_requests of alias {name}", str(theirs), rule)


def _of_flavor(
    alias: Alias, count: int, told: PciRequest | None, numa_policy: str | None
) -> DeviceRequest:
    own = told.numa_policy if told is not None else None
    return DeviceRequest(
        request_id=(told.request_id if told is not None else None) or alias.name,
        count=count,
        alternatives=alias.alternatives,
        numa_policy=own or numa_policy or alias.numa_policy,
        alias_name=alias.name,
    )


def _of_document(document: PciRequest, aliases: Aliases, numa_policy: str | None) -> DeviceRequest:
    """A document that has a specification means that, whatever its alias means here."""
    name = document.request_id or document.requester_id or document.alias_name or "device"
    where = f"pci_requests of {name}"
    policy = LEGACY
    if document.spec:
        alternatives = _alternatives(document, where)
    elif document.alias_name:
        alias = _alias(aliases, document.alias_name, where)
        alternatives, policy = alias.alternatives, alias.numa_policy
    else:
        raise _invalid(where, "", "needs an alias_name or a spec")
    return DeviceRequest(
        request_id=name,
        count=document.count,
        alternatives=alternatives,
        numa_policy=document.numa_policy or numa_policy or policy,
        alias_name=document.alias_name,
        requester_id=document.requester_id,
        source=document.source,
    )


def _alternatives(document: PciRequest, where: str) -> tuple[Wanted, ...]:
    try:
        return tuple(parse_wanted(spec) for spec in document.spec)
    except BadWord as broken:
        raise _invalid(where, str([dict(spec) for spec in document.spec]), str(broken)) from broken


def _alias(aliases: Aliases, name: str, where: str) -> Alias:
    alias = aliases.get(name)
    if alias is None:
        known = ", ".join(sorted(aliases)) or "none"
        rule = f"[pci] alias of this host names no such device (it names {known})"
        raise PciRequestAliasNotDefined(where=where, value=name, rule=rule)
    return alias


def _distinct(requests: Sequence[DeviceRequest]) -> tuple[DeviceRequest, ...]:
    """With ids of their own: of requests with one id, the second gets ``id#2``, and so on."""
    taken: set[str] = set()
    distinct = []
    for request in requests:
        ids = (f"{request.request_id}#{number}" for number in itertools.count(2))
        new = next(id_ for id_ in itertools.chain([request.request_id], ids) if id_ not in taken)
        taken.add(new)
        distinct.append(replace(request, request_id=new))
    return tuple(distinct)


def _invalid(where: str, value: str, rule: str) -> InvalidPciRequest:
    return InvalidPciRequest(where=where, value=value, rule=rule)
