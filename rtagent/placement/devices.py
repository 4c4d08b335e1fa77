"""Inventories of PCI devices and of assigned resources (virtual GPUs, persistent memory). Pure.

A device that a claim has is not reserved, because an allocation in Placement accounts for it. A
device for one use is, as in Nova: it will not be available after the claim either. A device that no
claim has and no new claim can get is reserved.
"""

from collections.abc import Iterator, Mapping

import os_traits
from msgspec.structs import replace

from rtagent.allocation.quantities import context_inventories
from rtagent.model.claim import PCI, RESOURCE
from rtagent.model.device import PciDevice
from rtagent.model.mem_encryption import RESOURCE_CLASS, TRAITS, pool, provider_suffix
from rtagent.model.node_state import NodeState
from rtagent.model.provider_names import device_suffix, mdev_suffix
from rtagent.pci.allocations import DeviceAllocations, device_allocations
from rtagent.pci.assigned_resources import allocatable_inventories, resource_users
from rtagent.pci.placement_reporting import ProviderDevices, provider_devices
from rtagent.placement.provider import (
    Contents,
    InventoryRecord,
    Provider,
    child_provider,
    countable,
)

#: What only the agent of a host sets on a provider of PCI devices.
PCI_EXCLUSIVE = Contents(
    traits=frozenset({os_traits.HW_PCI_LIVE_MIGRATABLE, os_traits.HW_PCI_ONE_TIME_USE})
)

#: A provider's PCI address ("" is the root) and a resource class.
_Pool = tuple[str, str]


def device_providers(state: NodeState) -> Iterator[Provider]:
    """Yield a provider for each PCI device; virtual functions are counted on their physical one.

    There are none unless ``[pci] report_in_placement`` is set.
    """
    if not state.policy.pci.report_in_placement:
        return
    allocations = device_allocations(state)
    # A device that is no longer in the specifications stays while a claim has it, because its
    # allocation stays, too.
    groups, _ = provider_devices(
        each
        for address, each in state.devices.items()
        if each.listed or (PCI, address) in state.units
    )
    for group in groups:
        yield _device_provider(state, allocations, group)


def root_resources(state: NodeState) -> Mapping[str, InventoryRecord]:
    """Return the assigned resources of the host itself (persistent memory), by resource class."""
    return dict(_resource_records(state).get("", {}))


def encryption_providers(state: NodeState) -> Iterator[Provider]:
    """Yield a provider for the contexts of each model of memory encryption.

    It is named as in Nova. Contexts that claims have are counted even if the host no longer has
    them, because their allocations remain.
    """
    inventories = context_inventories(state)
    for model, trait in TRAITS.items():
        usages = (claim.usage.quantities.get(pool(model), 0) for claim in state.claims.values())
        claimed = sum(usages)
        total = max(inventories[model].total if model in inventories else 0, claimed)
        used = state.usage.quantities.get(pool(model), 0)
        if total:
            reserved = min(total, max(0, used - claimed))
            record = replace(countable(total, reserved), max_unit=1)
            suffix, traits = provider_suffix(model), frozenset({trait})
            yield child_provider(state, suffix, {RESOURCE_CLASS: record}, traits)


def resource_providers(state: NodeState) -> Iterator[Provider]:
    """Yield a provider for each device that provides mediated devices.

    It is named as in Nova, after the name of the device in libvirt.
    """
    for address, records in sorted(_resource_records(state).items()):
        if address:
            yield child_provider(state, mdev_suffix(address), records)


def _device_provider(
    state: NodeState, allocations: DeviceAllocations, group: ProviderDevices
) -> Provider:
    first = group.devices[0]
    reserved = sum(_is_reserved(state, allocations, each) for each in group.devices)
    return child_provider(
        state,
        device_suffix(group.address),
        {first.resource_class: countable(len(group.devices), reserved)},
        first.tags.provider_traits,
        PCI_EXCLUSIVE,
    )


def _is_reserved(state: NodeState, allocations: DeviceAllocations, device: PciDevice) -> bool:
    """Whether Placement must not count the device as free, whatever allocations it has."""
    address = device.address
    if (PCI, address) in state.units:
        return device.tags.one_time_use and not _is_unwritten(state, allocations, address)
    return (
        bool(allocations.allocations_of(address)) or allocations.unavailability(address) is not None
    )


def _is_unwritten(state: NodeState, allocations: DeviceAllocations, address: str) -> bool:
    """Whether the agent has yet to write the allocation of a device: Placement would refuse it, and
    its move to another consumer, while the device is reserved.
    """
    owners = {each.owner_id for each in allocations.allocations_of(address)}
    claims = (claim for owner in owners for claim in state.claims_of(owner))
    migrations = {claim.migration_uuid for claim in claims if claim.migration_uuid}
    return any(uuid in state.outbox for uuid in owners | migrations)


def _resource_records(state: NodeState) -> Mapping[str, Mapping[str, InventoryRecord]]:
    """Return the records of assigned resources, by provider and class.

    A claimed unit is counted even if it is gone, because its allocation remains. An unclaimed unit
    that is unavailable is reserved.
    """
    claimed = {name for kind, name in state.units if kind == RESOURCE}
    used = resource_users(state)
    inventories = allocatable_inventories(state)
    free = {name for each in inventories for name in each.identifiers if name not in used}
    records: dict[str, dict[str, InventoryRecord]] = {}
    for (provider, resource_class), names in sorted(_pools(state).items()):
        reserved = len(names - claimed - free)
        records.setdefault(provider, {})[resource_class] = countable(len(names), reserved)
    return records


def _pools(state: NodeState) -> Mapping[_Pool, set[str]]:
    """Return the identifiers of each pool that has at least one."""
    pools: dict[_Pool, set[str]] = {}
    for each in state.resource_inventories:
        for name in each.identifiers:
            pools.setdefault((each.provider, each.resource_class), set()).add(name)
    for claim in state.claims.values():
        for unit in claim.resources:
            pools.setdefault((unit.parent_addr or "", unit.resource_class), set()).add(
                unit.identifier
            )
    return pools
