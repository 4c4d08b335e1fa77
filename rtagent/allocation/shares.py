"""Shares: what Placement allocated of this node's providers to a claim's consumer.

The claim follows them: it gets as many units of each provider as are allocated there. Allocations
that are not what the claim needs are an error.

The allocations are those of the whole consumer, so other services' providers are among them: a
sharing provider of disk, network bandwidth, accelerators. They are ignored, unless their class is
one that this agent counts: then another host was meant. In a live migration or an evacuation the
other host is the guest's source, which may have its part under the same consumer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rtagent.allocation import device_shares
from rtagent.allocation.device_shares import NOT_OURS, NOT_THERE, Mismatch, check
from rtagent.allocation.provider_pools import DISK, ProviderPools
from rtagent.allocation.requirements import Requirements
from rtagent.model.base import Value
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION, OUTGOING
from rtagent.model.mem_encryption import provider_suffix
from rtagent.model.node_state import NodeState
from rtagent.model.request import Allocations, AttachRequest, BuildRequest
from rtagent.pci.assigned_resources import ResourceRequest
from rtagent.pci.matching import DeviceShares
from rtagent.pci.requests import DeviceRequest

#: The claims, by kind, whose consumer may also have the source's part.
_WITH_SOURCE = frozenset({LIVE_MIGRATION, EVACUATION})


class Shares(Value, frozen=True, kw_only=True):
    """The shares of one consumer.

    :ivar resources: numbers of assigned resources, by class and by the address of the parent device
        ("": the host).
    :ivar quantities: of the classes that provider files offer, by class and by the
        suffix of the provider's name. A class that is absent is
        counted by another service.
    """

    resources: Mapping[str, Mapping[str, int]]
    quantities: Mapping[str, Mapping[str, int]]
    devices: DeviceShares


def shares_of(
    state: NodeState, request: BuildRequest, required: Requirements, kind: str
) -> Shares | None:
    """Return the shares that a claim follows; None: the agent chooses.

    :param kind: of the claim. :raises AllocationMismatch:
    """
    if state.topology is None:  # `allocate` refuses that
        return None
    if request.allocations is None:
        check(device_shares.unallocated(request.provider_mapping or {}))
        return None
    pools = ProviderPools(state)
    parts = _Parts(pools, request.allocations)
    lenient = kind in _WITH_SOURCE
    needed = required.allocated if state.policy.judges_amounts else {}
    devices, mismatches = device_shares.build(
        pools, state, required.devices, request.allocations, request.provider_mapping or {}
    )
    check(
        (
            *parts.misplaced(lenient=lenient),
            *parts.of_the_host(needed, lenient=lenient),
            *parts.of_resources(state, required.assigned_resources),
            *parts.of_quantities(foreign(pools, required.assigned_resources), lenient=lenient),
            *parts.of_contexts(required.mem_encryption),
            *mismatches,
        )
    )
    return Shares(resources=parts.resources, quantities=parts.quantities, devices=devices)


def attached_shares(
    state: NodeState, request: AttachRequest, requests: Sequence[DeviceRequest]
) -> DeviceShares | None:
    """Return the shares that an attach claim follows; None: the agent chooses.

    The allocations are those of the whole guest: what its other claims have is not for this one.

    :raises AllocationMismatch:
    """
    if request.allocations is None:
        check(device_shares.unallocated(request.provider_mapping or {}))
        return None
    pools = ProviderPools(state)
    addresses = {
        device.address
        for claim in state.claims_of(request.instance.uuid)
        if claim.state != OUTGOING  # the migration's, not the instance's
        for device in claim.pci
    }
    providers = pools.device_providers
    held = Counter(providers[address] for address in addresses if address in providers)
    devices, mismatches = device_shares.build(
        pools, state, requests, request.allocations, request.provider_mapping or {}, held
    )
    check(mismatches)
    return devices


def foreign(pools: ProviderPools, requests: Mapping[str, ResourceRequest]) -> dict[str, int]:
    """Return the requests for classes of which this agent has no units: another service counts
    them, or a provider file offers them.
    """
    return {
        name: request
        for name, request in requests.items()
        if isinstance(request, int) and not (pools.assigns(name) or pools.counts(name))
    }


class _Parts:
    """The parts of the allocations: of this node's providers, and of others."""

    def __init__(self, pools: ProviderPools, allocations: Allocations) -> None:
        self._pools, self._allocations = pools, allocations
        self.here, self.elsewhere = Counter[str](), Counter[str]()
        self.resources: dict[str, dict[str, int]] = {}
        self.quantities: dict[str, dict[str, int]] = {}
        for uuid, name, number in self._all():
            if uuid not in pools.uuids:
                self.elsewhere[name] += number
            elif pools.has(uuid, name):
                self.here[name] += number
                if (uuid, name) in pools.resources:
                    self.resources.setdefault(name, {})[pools.resources[uuid, name]] = number
                elif (uuid, name) in pools.additional:
                    self.quantities.setdefault(name, {})[pools.additional[uuid, name]] = number

    def misplaced(self, *, lenient: bool) -> Iterator[Mismatch]:
        """Yield what is allocated where it cannot be.

        :param lenient: the source of the guest may have its part.
        """
        for uuid, name, number in self._all():
            ours = uuid in self._pools.uuids
            if ours and not self._pools.has(uuid, name):
                yield Mismatch(name, number, 0, NOT_THERE, uuid)
            if not (ours or lenient or name == DISK) and self._pools.counts(name):
                yield Mismatch(name, number, 0, NOT_OURS, uuid)

    def of_the_host(self, needed: Mapping[str, int], *, lenient: bool) -> Iterator[Mismatch]:
        """Yield the differences of vCPUs, CPUs, memory and disk."""
        for name, number in needed.items():
            here, elsewhere = self.here[name], self.elsewhere[name] if name == DISK else 0
            fits = here + elsewhere == number and 0 in (here, elsewhere)
            with_source = lenient and (here == number or (not here and elsewhere >= number))
            if not fits and not with_source:
                yield Mismatch(name, here + elsewhere, number)

    def of_resources(
        self, state: NodeState, requests: Mapping[str, ResourceRequest]
    ) -> Iterator[Mismatch]:
        """Yield the differences of assigned resources."""
        for name in dict.fromkeys((*requests, *self.resources)):
            request, allocated = requests.get(name, 0), self.resources.get(name, {})
            if isinstance(request, int):
                if self._pools.assigns(name) and self.here[name] != request:
                    yield Mismatch(name, self.here[name], request)
                continue
            named = _by_parent(state, name, request)
            for uuid, parent in self._providers(name):
                if named[parent] != allocated.get(parent, 0):
                    yield Mismatch(name, allocated.get(parent, 0), named[parent], provider=uuid)

    def of_quantities(self, requests: Mapping[str, int], *, lenient: bool) -> Iterator[Mismatch]:
        """Yield the differences of the classes that another service, or a provider
        file, defines.
        """
        for name in dict.fromkeys((*requests, *self.quantities)):
            needed, here = requests.get(name, 0), self.here[name]
            total = here + self.elsewhere[name]
            with_source = lenient and here in (0, needed) and total >= needed
            if total != needed and not with_source:
                yield Mismatch(name, total, needed)

    def of_contexts(self, model: str | None) -> Iterator[Mismatch]:
        """Yield the differences of contexts for the encryption of memory.

        :param model: that the guest requests, or None.
        """
        suffix = None if model is None else provider_suffix(model)
        for (uuid, name), each in self._pools.contexts.items():
            needed, allocated = int(each == suffix), self._number(uuid, name)
            if allocated != needed:
                yield Mismatch(name, allocated, needed, provider=uuid)

    def _number(self, uuid: str, resource_class: str) -> int:
        allocation = self._allocations.get(uuid)
        return 0 if allocation is None else allocation.resources.get(resource_class, 0)

    def _providers(self, resource_class: str) -> Iterator[tuple[str, str]]:
        for (uuid, name), parent in self._pools.resources.items():
            if name == resource_class:
                yield uuid, parent

    def _all(self) -> Iterator[tuple[str, str, int]]:
        for uuid, allocation in self._allocations.items():
            for name, number in allocation.resources.items():
                yield uuid, name, number


def _by_parent(state: NodeState, resource_class: str, names: Sequence[str]) -> Counter[str]:
    """Return the number of these units of each parent device."""
    wanted = frozenset(names)
    return Counter(
        {
            each.provider: len(wanted.intersection(each.identifiers))
            for each in state.resource_inventories
            if each.resource_class == resource_class
        }
    )
