"""Device requests of a claim: from the flavor's aliases and the instance's ``pci_requests``."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from rtagent.errors import InvalidPciRequest, PciRequestAliasNotDefined
from rtagent.model.base import MAX_INT, Value, made_from
from rtagent.model.device import DEV_TYPES, LEGACY, SRIOV_VF, DeviceCriteria, Source
from rtagent.model.policy import Alias, Aliases
from rtagent.model.request import Flavor, PciRequest
from rtagent.pci import parsing
from rtagent.pci.parsing import InvalidValue

EXTRA_SPEC = "pci_passthrough:alias"
FLAVOR_ALIAS: Final = "flavor_alias"
NEUTRON_PORT: Final = "neutron_port"


class DeviceRequest(Value, frozen=True, kw_only=True):
    """A request for `count` devices.

    :ivar request_id: the caller's, or the name of the alias.
    :ivar alternatives: each device must meet at least one of them.
    :ivar numa_policy: the policy in force, defaults resolved.
    """

    request_id: str
    count: int
    alternatives: tuple[DeviceCriteria, ...]
    numa_policy: str = LEGACY
    alias_name: str | None = None
    requester_id: str | None = None
    source: Source = FLAVOR_ALIAS

    @property
    def purpose(self) -> str:
        """The purpose of the devices, as in `AssignedDevice.purpose`."""
        return self.alias_name or self.request_id

    @property
    def resource(self) -> str:
        """The name of the request in refusals."""
        return f"PCI {self.alias_name or ' or '.join(map(str, self.alternatives))}"


def device_requests(
    flavor: Flavor | None,
    documents: Sequence[PciRequest],
    aliases: Aliases,
    numa_policy: str | None,
) -> tuple[DeviceRequest, ...]:
    """Return all requests of a build, the flavor's first.

    Nova's conductor translates the flavor's aliases into documents. Such a document and the alias
    in the flavor are one request.

    :param flavor: None: the documents ask for devices to attach, alone.
    :param numa_policy: ``hw:pci_numa_affinity_policy`` of flavor or image. It takes precedence over
        the policy of an alias; the policy of a document takes precedence over both.
    :raises PciRequestAliasNotDefined: the host has no such alias.
    :raises InvalidPciRequest: the extra spec or a document cannot be parsed, or they contradict
        each other.
    """
    counts = list(_flavor_aliases(flavor)) if flavor is not None else []
    names = {name for name, _ in counts}
    translated = [
        document
        for document in documents
        if document.source == FLAVOR_ALIAS and document.alias_name in names
    ]
    _check_counts(counts, translated)
    by_alias = {document.alias_name: document for document in translated}
    from_flavor = (
        _flavor_request(
            _find_alias(aliases, name, EXTRA_SPEC), count, by_alias.get(name), numa_policy
        )
        for name, count in counts
    )
    others = (document for document in documents if document not in translated)
    from_documents = (_document_request(each, aliases, numa_policy) for each in others)
    return _with_distinct_ids([*from_flavor, *from_documents])


def requests_of_move(
    flavor: Flavor, documents: Sequence[PciRequest], aliases: Aliases, numa_policy: str | None
) -> tuple[DeviceRequest, ...]:
    """Return all requests of a move: the requests of ports, and those of the new flavor.

    Documents translated from the old flavor do not apply (LP1983753).

    :raises PciRequestAliasNotDefined: as `device_requests`.
    :raises InvalidPciRequest: as `device_requests`.
    """
    ports = [document for document in documents if document.source == NEUTRON_PORT]
    return device_requests(flavor, ports, aliases, numa_policy)


def _flavor_aliases(flavor: Flavor) -> Iterator[tuple[str, int]]:
    """Parse ``name:count[,name:count]``."""
    text = flavor.extra_specs.get(EXTRA_SPEC, "")
    for part in text.split(",") if text else ():
        name, _, count = part.rpartition(":")
        number = count.strip()
        if not name.strip() or not (number.isascii() and number.isdecimal()):
            raise _invalid(EXTRA_SPEC, text, "must be name:count[,name:count]")
        if not 1 <= int(number[:11]) <= MAX_INT:
            raise _invalid(EXTRA_SPEC, text, f"a count must be from 1 to {MAX_INT}")
        yield name.strip(), int(number)


def _check_counts(counts: Sequence[tuple[str, int]], translated: Sequence[PciRequest]) -> None:
    """Check that the translated documents request as many devices of an alias as the
    flavor does.
    """
    for name in dict.fromkeys(document.alias_name for document in translated):
        requested = sum(document.count for document in translated if document.alias_name == name)
        expected = sum(count for other, count in counts if other == name)
        if requested != expected:
            rule = f"the flavor requests {expected} of that alias"
            raise _invalid(f"pci_requests of alias {name}", str(requested), rule)


def _flavor_request(
    alias: Alias, count: int, translated: PciRequest | None, numa_policy: str | None
) -> DeviceRequest:
    own_policy = translated.numa_policy if translated is not None else None
    return DeviceRequest(
        request_id=(translated.request_id if translated is not None else None) or alias.name,
        count=count,
        alternatives=alias.alternatives,
        numa_policy=own_policy or numa_policy or alias.numa_policy,
        alias_name=alias.name,
    )


def _document_request(
    document: PciRequest, aliases: Aliases, numa_policy: str | None
) -> DeviceRequest:
    """Return the request of a document. Its own `spec` takes precedence over its alias."""
    name = document.request_id or document.requester_id or document.alias_name or "device"
    where = f"pci_requests of {name}"
    policy = LEGACY
    if document.spec:
        alternatives = _parse_alternatives(document, where)
    elif document.alias_name:
        alias = _find_alias(aliases, document.alias_name, where)
        alternatives, policy = alias.alternatives, alias.numa_policy
    else:
        raise _invalid(where, "", "needs an alias_name or a spec")
    return made_from(
        DeviceRequest,
        document,
        request_id=name,
        alternatives=alternatives,
        numa_policy=document.numa_policy or numa_policy or policy,
    )


def _find_alias(aliases: Aliases, name: str, where: str) -> Alias:
    alias = aliases.get(name)
    if alias is None:
        known = ", ".join(sorted(aliases)) or "none"
        rule = f"[pci] alias of this host does not define it (defined: {known})"
        raise PciRequestAliasNotDefined(where=where, value=name, rule=rule)
    return alias


def _parse_alternatives(document: PciRequest, where: str) -> tuple[DeviceCriteria, ...]:
    try:
        return tuple(_parse_criteria(spec) for spec in document.spec)
    except InvalidValue as error:
        raise _invalid(where, str([dict(spec) for spec in document.spec]), str(error)) from error


def _parse_criteria(spec: Mapping[str, str | None]) -> DeviceCriteria:
    unknown = sorted(spec.keys() - _PARSERS.keys())
    if unknown:
        raise InvalidValue(f"{unknown[0]}: unknown key; the keys are {', '.join(_PARSERS)}")
    values: dict[str, object] = {}
    for key, value in spec.items():
        try:
            values[key] = _PARSERS[key](value)
        except InvalidValue as error:
            raise InvalidValue(f"{key}: {error}") from error
    if values.get("remote_managed") is False:
        # All ports of Nova say so. It means functions of a card with SR-IOV: a plain network card
        # cannot be the interface of a guest.
        values.setdefault("dev_type", SRIOV_VF)
    return DeviceCriteria(**values)  # type: ignore[arg-type]


#: The keys of a document's `spec` (Nova's, of its InstancePCIRequest), and their parsers.
_PARSERS = {
    "vendor_id": parsing.parse_hex_id,
    "product_id": parsing.parse_hex_id,
    "dev_type": parsing.one_of(DEV_TYPES),
    "physical_network": parsing.parse_network,
    "trusted": parsing.parse_boolean,
    "remote_managed": parsing.parse_boolean,
    "live_migratable": parsing.parse_boolean,
    "resource_class": parsing.parse_resource_class,
    "traits": parsing.parse_traits,
    "parent_ifname": parsing.parse_string,
}


def _with_distinct_ids(requests: Sequence[DeviceRequest]) -> tuple[DeviceRequest, ...]:
    """Make request ids unique: further requests with one id get ``id#2``, ``id#3``, and so on."""
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
