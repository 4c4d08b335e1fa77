"""The shares of a consumer in PCI devices, and the differences between the allocations of a claim
and what the claim needs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from rtagent.allocation.provider_pools import ProviderPools
from rtagent.errors import AllocationMismatch
from rtagent.model.base import Value
from rtagent.model.node_state import NodeState
from rtagent.model.request import Allocations, ProviderMapping
from rtagent.pci.candidates import suits
from rtagent.pci.matching import DeviceShares
from rtagent.pci.pools import device_classes
from rtagent.pci.requests import FLAVOR_ALIAS, DeviceRequest

NOT_OURS = "the provider is not one of this node, or not one of these devices"
NOT_THERE = "the provider does not have that class"
NOT_NEEDED = "the quantities must be equal"
NOT_ALLOCATED = "provider_mapping names the provider, and the allocations do not"


class Mismatch(Value, frozen=True):
    """One difference.

    :ivar provider: its uuid; None: all providers of the node together.
    """

    resource_class: str
    allocated: int
    needed: int
    rule: str = NOT_NEEDED
    provider: str | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the difference as a document, for the error."""
        where = f"provider {self.provider}" if self.provider else "this node's providers"
        return {
            "provider": self.provider,
            "resource_class": self.resource_class,
            "allocated": self.allocated,
            "needed": self.needed,
            "message": f"{self.resource_class or 'any class'} of {where}: {self.allocated}"
            f" allocated, {self.needed} needed: {self.rule}",
        }


def check(mismatches: Iterable[Mismatch]) -> None:
    """Raise every difference.

    :raises AllocationMismatch: there is one.
    """
    listed = [each.as_dict() for each in mismatches]
    if listed:
        raise AllocationMismatch(mismatches=listed)


#: A request's id in the name of its request group: Nova adds the number of the device, and an
#: underscore before the name in Placement's documents.
_GROUP = re.compile(r"^_?(.*)-[0-9]+$")


def request_of(group: str) -> str:
    """Return the id of the device request that a group is for; any other name, unchanged."""
    return _GROUP.sub(r"\1", group)


#: An id that Placement accepts in the name of a request group: 64 characters with what is added.
_ID = re.compile(r"[a-zA-Z0-9_-]{1,50}")


def group_id(request_id: str) -> str:
    """Return a device request's id as the names of its request groups have it. One that Placement
    does not accept, as the name of an alias with a blank, is replaced by its digest.
    """
    accepted = _ID.fullmatch(request_id)
    return request_id if accepted else sha256(request_id.encode()).hexdigest()[:32]


def build(
    pools: ProviderPools,
    state: NodeState,
    requests: Sequence[DeviceRequest],
    allocations: Allocations,
    mapping: ProviderMapping,
    held: Mapping[str, int] | None = None,
) -> tuple[DeviceShares, tuple[Mismatch, ...]]:
    """Return the shares, and all differences from what the requests need.

    :param held: the number of devices of each provider that other claims of the consumer have.
    """
    numbers = Counter[str]()
    classes: dict[str, str] = {}
    for (uuid, name), address in pools.devices.items():
        classes[address] = name
        if uuid in allocations:
            numbers[address] = allocations[uuid].resources.get(name, 0)
    numbers -= Counter(held or {})
    mapped, mismatches = _mapped(pools, requests, allocations, mapping)
    shares = DeviceShares(numbers=+numbers, providers=pools.device_providers, mapped=mapped)
    acceptances = tuple(_Acceptance.of(state, request, shares) for request in requests)
    return shares, (*mismatches, *_differences(shares, classes, acceptances))


def unallocated(mapping: ProviderMapping) -> Iterator[Mismatch]:
    """Yield a difference for each provider that a mapping without allocations names."""
    for key, uuids in mapping.items():
        for uuid in uuids:
            yield _unmapped(uuid, "", None, f"{NOT_ALLOCATED} ({key})")


class _Acceptance(Value, frozen=True, kw_only=True):
    """What one request accepts.

    :ivar classes: the resource classes of reported devices that suit it, available or not.
    :ivar elsewhere: a device that is not reported suits it, too.
    """

    request: DeviceRequest
    classes: frozenset[str]
    elsewhere: bool

    @classmethod
    def of(cls, state: NodeState, request: DeviceRequest, shares: DeviceShares) -> _Acceptance:
        """Return what a request accepts."""
        mapped, names, elsewhere = shares.mapped.get(request.request_id), set[str](), False
        for each in device_classes(state.devices):
            if not each.example.listed or not suits(each.example, request.alternatives):
                continue
            for provider in map(shares.providers.get, each.addresses):
                if provider is None:
                    elsewhere = elsewhere or mapped is None
                elif mapped is None or provider in mapped:
                    names.add(each.example.resource_class)
        return cls(request=request, classes=frozenset(names), elsewhere=elsewhere)

    @property
    def least(self) -> int:
        """The number of reported devices that it takes at least."""
        return self.request.count if self.classes and not self.elsewhere else 0

    @property
    def most(self) -> int:
        """The number of reported devices that it may take."""
        return self.request.count if self.classes else 0


def _mapped(
    pools: ProviderPools,
    requests: Sequence[DeviceRequest],
    allocations: Allocations,
    mapping: ProviderMapping,
) -> tuple[dict[str, frozenset[str]], tuple[Mismatch, ...]]:
    """Return the providers of each request, by address, and the providers that it cannot have."""
    providers = {uuid: (address, name) for (uuid, name), address in pools.devices.items()}
    by_id = {
        name: request
        for request in requests
        for name in (group_id(request.request_id), request.request_id)
    }
    mapped: dict[str, set[str]] = {}
    mismatches: list[Mismatch] = []
    for key, uuids in mapping.items():
        # The name of a group may be an id, too: gpu-1 is the second group of gpu.
        request = by_id.get(request_of(key)) or by_id.get(key)
        for uuid in uuids:
            address, name = providers.get(uuid, ("", ""))
            if uuid not in allocations:
                mismatches.append(_unmapped(uuid, name, request, f"{NOT_ALLOCATED} ({key})"))
            elif request is not None and address:
                mapped.setdefault(request.request_id, set()).add(address)
            elif request is not None and request.source == FLAVOR_ALIAS:
                mismatches.append(_unmapped(uuid, name, request, f"{NOT_OURS} ({key})"))
    return {key: frozenset(addresses) for key, addresses in mapped.items()}, tuple(mismatches)


def _unmapped(uuid: str, name: str, request: DeviceRequest | None, rule: str) -> Mismatch:
    needed = request.count if request is not None else 1
    return Mismatch(name, 0, needed, rule, uuid)


def _differences(
    shares: DeviceShares, classes: Mapping[str, str], acceptances: Sequence[_Acceptance]
) -> Iterator[Mismatch]:
    """Yield the differences between the shares and what the requests take at least and at most:
    by class, of each mapping, and in total.
    """
    found = Counter[str]()
    for provider, number in shares.numbers.items():
        found[classes[provider]] += number
    names = sorted({*found, *(name for each in acceptances for name in each.classes)})
    differ = False
    for name in names:
        least = sum(each.least for each in acceptances if each.classes == {name})
        most = sum(each.most for each in acceptances if name in each.classes)
        if not least <= found[name] <= most:
            differ = True
            needed = least if found[name] < least else most
            yield Mismatch(name, found[name], needed)
    for each in acceptances:
        request, mapped = each.request, shares.mapped.get(each.request.request_id)
        if mapped is not None:
            number = sum(shares.numbers.get(provider, 0) for provider in mapped)
            if number < request.count:
                differ = True
                rule = f"the providers of request {request.request_id} in provider_mapping"
                name = " or ".join(sorted({classes[provider] for provider in mapped}))
                yield Mismatch(name, number, request.count, rule)
    least, most = sum(each.least for each in acceptances), sum(each.most for each in acceptances)
    if not differ and not least <= shares.total <= most:
        needed = least if shares.total < least else most
        yield Mismatch(" or ".join(names), shares.total, needed)
