"""What the resource providers of this node have, as allocations in Placement name it."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from rtagent.model.mem_encryption import MODELS, RESOURCE_CLASS, provider_suffix
from rtagent.model.node_state import NodeState
from rtagent.model.provider_names import device_suffix, provider_uuid
from rtagent.pci.mdev import VGPU
from rtagent.pci.placement_reporting import (
    provider_addresses,
    provider_classes,
    provider_of_resource,
)
from rtagent.pci.pmem import CLASS_PREFIX as PMEM_PREFIX

#: The resource classes that every host has, on its root provider.
HOST_CLASSES = frozenset({"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"})
#: Disk may be on a provider that several hosts share.
DISK = "DISK_GB"
#: A provider's uuid, and a resource class.
Pool = tuple[str, str]


class ProviderPools:
    """The providers of a node, and the resource classes of each."""

    def __init__(self, state: NodeState) -> None:
        self._state = state

    @cached_property
    def resources(self) -> Mapping[Pool, str]:
        """Assigned resources: the address of the parent device, or "" for the host itself."""
        return {
            (provider_of_resource(self._state, parent), name): parent
            for parent, name in dict.fromkeys(self._resource_pools())
        }

    @cached_property
    def devices(self) -> Mapping[Pool, str]:
        """PCI devices: the address that names the provider."""
        if not self._state.policy.pci.report_in_placement:
            return {}
        return {
            (self._uuid(device_suffix(address)), name): address
            for address, name in provider_classes(self._state.devices).items()
        }

    @cached_property
    def additional(self) -> Mapping[Pool, str]:
        """What provider files offer: the suffix of the provider's name."""
        found = self._state.policy.placement.additional
        return {(self._uuid(each.suffix), each.resource_class): each.suffix for each in found}

    @cached_property
    def contexts(self) -> Mapping[Pool, str]:
        """Contexts for the encryption of memory: the suffix of the provider's name."""
        suffixes = map(provider_suffix, MODELS)
        return {(self._uuid(suffix), RESOURCE_CLASS): suffix for suffix in suffixes}

    @cached_property
    def uuids(self) -> frozenset[str]:
        """All providers of the node."""
        pools = (*self.resources, *self.devices, *self.additional, *self.contexts)
        return frozenset((self._state.node.uuid, *(uuid for uuid, _ in pools)))

    def has(self, uuid: str, resource_class: str) -> bool:
        """Return whether a provider has a resource class."""
        pool = uuid, resource_class
        if uuid == self._state.node.uuid and resource_class in HOST_CLASSES:
            return resource_class != DISK or self._state.policy.placement.disk_provider is None
        found = (self.resources, self.devices, self.additional, self.contexts)
        return any(pool in pools for pools in found)

    def assigns(self, resource_class: str) -> bool:
        """Return whether claims get units of a class with identifiers, here or on other hosts."""
        if resource_class == VGPU or resource_class.startswith(PMEM_PREFIX):
            return True
        types = self._state.policy.pci.mdev_types
        return resource_class in {name for _, name in self.resources} or resource_class in {
            each.resource_class for each in types
        }

    def counts(self, resource_class: str) -> bool:
        """Return whether this agent counts a class, other than by what provider files
        offer.
        """
        devices = provider_classes(self._state.devices).values()
        resources = (name for _, name in self.resources)
        return resource_class in (*HOST_CLASSES, RESOURCE_CLASS, *devices, *resources)

    @cached_property
    def device_providers(self) -> Mapping[str, str]:
        """The address that names its provider, by the address of each reported device."""
        reported = self._state.policy.pci.report_in_placement
        return provider_addresses(self._state.devices) if reported else {}

    def _resource_pools(self) -> Iterator[tuple[str, str]]:
        for each in self._state.resource_inventories:
            yield each.provider, each.resource_class
        yield from sorted(claimed_pools(self._state))  # the inventory may be gone

    def _uuid(self, suffix: str) -> str:
        return provider_uuid(self._state.node, self._state.policy.placement, suffix)


def claimed_pools(state: NodeState) -> frozenset[tuple[str, str]]:
    """Return parent device ("": the host) and class of the assigned resources of all claims."""
    claimed = (
        (unit.parent_addr or "", unit.resource_class)
        for claim in state.claims.values()
        for unit in claim.resources
    )
    return state.former_pools.union(claimed)
