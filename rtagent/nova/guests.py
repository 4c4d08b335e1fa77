"""Nova's instances as rtagent's documents: flavor, image, facts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace
from nova import objects

from rtagent.allocation.provider_pools import ProviderPools
from rtagent.model.assignment import AssignedQuantity
from rtagent.model.base import Value
from rtagent.model.device import LEGACY
from rtagent.model.mem_encryption import provider_suffix
from rtagent.model.migration import MigrationFacts
from rtagent.model.node_state import NodeState
from rtagent.model.request import (
    Allocation,
    Allocations,
    Flavor,
    Image,
    Instance,
    InstanceUpdate,
    Limits,
    NetworkMetadata,
    NumaLimits,
    PciRequest,
    ProviderMapping,
)
from rtagent.nova.releases import encryption_model

_HYPERTHREADING = "trait:HW_CPU_HYPERTHREADING"
#: Keys of extra specs that state amounts, or how CPUs are pinned. Of the keys that start
#: with one of `_OTHERS` they are the only ones that say something about the host; Placement decides
#: on the rest. Nova reads those of CPUs in numbered groups, too, and in no others.
_COUNTED = re.compile(
    r"resources([1-9][0-9]*)?:[VP]CPU|resources:(MEMORY_MB|DISK_GB)"
    r"|trait([1-9][0-9]*)?:HW_CPU_HYPERTHREADING"
)
_OTHERS = ("resources", "trait", "group_policy", "pci_passthrough:alias", "aggregate_")
#: Placement decides on the contexts of encrypted memory, see `quantities`.
_ENCRYPTION = "hw:mem_encryption"
#: Of a guest with devices alone: an attached device counts for nothing of its flavor.
NO_FLAVOR = Flavor(vcpus=1, memory_mb=1)
#: Image properties about CPUs, cells, pages and devices begin with one of these.
_OF_THE_HOST = (
    "hw_cpu",
    "hw_numa",
    "hw_mem_page_size",
    "hw_pci",
    "hw_emulator",
    "hw_locked",
    "hw_realtime",
)


def flavor(nova: Any, *, has_cells: bool = True) -> Flavor:
    """Return the document of a flavor.

    :param has_cells: the host has NUMA cells. Nova places nothing on a host without cells, whatever
        the flavor says.
    """
    specs = nova.extra_specs if has_cells and "extra_specs" in nova else {}
    return Flavor(
        vcpus=nova.vcpus,
        memory_mb=nova.memory_mb,
        root_gb=nova.root_gb,
        ephemeral_gb=nova.ephemeral_gb,
        swap=nova.swap,
        flavorid=str(nova.flavorid),
        name=nova.name,
        extra_specs={
            key: str(value)
            for key, value in specs.items()
            if _COUNTED.fullmatch(key) or not key.startswith((*_OTHERS, _ENCRYPTION))
        },
    )


def _image(nova: Any) -> Image:
    """Return the document of an ImageMeta, or of its dict."""
    meta = objects.ImageMeta.from_dict(nova) if isinstance(nova, dict) else nova
    if not meta or not meta.obj_attr_is_set("properties"):
        return Image()
    properties: dict[str, str] = {}
    if "HW_CPU_HYPERTHREADING" in meta.properties.get("traits_required", []):
        properties[_HYPERTHREADING] = "required"
    for name in meta.properties.fields:
        value = getattr(meta.properties, name) if meta.properties.obj_attr_is_set(name) else None
        if value is None or not name.startswith(_OF_THE_HOST):
            continue
        if name in ("hw_numa_cpus", "hw_numa_mem"):
            properties.update({f"{name}.{i}": _listed(each) for i, each in enumerate(value)})
        else:
            properties[name] = str(value)
    return Image(properties=properties)


def instance(
    nova: Any,
    nova_flavor: Any,
    image_meta: Any,
    pci_requests: tuple[PciRequest, ...] = (),
    *,
    has_cells: bool,
    is_volume_backed: bool,
) -> Instance:
    """Return the document of an instance, as it is or as it will be on this host.

    :param image_meta: an ImageMeta, or its dict. :param has_cells: see `flavor`.
    """
    return Instance(
        uuid=nova.uuid,
        flavor=flavor(nova_flavor, has_cells=has_cells),
        image=_image(image_meta) if has_cells else Image(),
        pci_requests=pci_requests,
        is_volume_backed=is_volume_backed,
        **_facts(nova),
    )


def update(nova: Any) -> InstanceUpdate:
    """Return the new state of an instance."""
    return InstanceUpdate(uuid=nova.uuid, **_facts(nova))


def _facts(nova: Any) -> dict[str, Any]:
    return {
        "project_id": nova.project_id,
        "user_id": nova.user_id,
        "display_name": nova.display_name,
        "vm_state": nova.vm_state or "building",
        "task_state": nova.task_state,
        "os_type": nova.os_type,
    }


def _listed(value: Any) -> str:
    """Return a number, or a set of CPUs, as an image property has it."""
    return str(value) if isinstance(value, int) else ",".join(map(str, sorted(value)))


#: The key of a request's specifications with the providers that Placement allocated.
_PROVIDERS = "rp_uuids"


class DeviceRequests(Value, frozen=True, kw_only=True):
    """The requests of an instance.

    :ivar allocations: of devices, by provider uuid; None: Placement has none for them.
    :ivar provider_mapping: the providers of each request that Placement has allocations for.
    """

    requests: tuple[PciRequest, ...] = ()
    allocations: Allocations | None = None
    provider_mapping: ProviderMapping = {}


def device_requests(nova: Any, classes: Mapping[str, str]) -> DeviceRequests:
    """Return the requests of an InstancePCIRequests, or of None.

    :param classes: the resource class of each provider of devices, by uuid.
    """
    requests = list(nova.requests) if nova else []
    mapping = {request_id(each): tuple(_providers(each)) for each in requests if _providers(each)}
    numbers = Counter(uuid for uuids in mapping.values() for uuid in uuids)
    return DeviceRequests(
        requests=tuple(map(_request, requests)),
        allocations={
            uuid: Allocation(resources={classes[uuid]: number})
            for uuid, number in numbers.items()
            if uuid in classes
        }
        if mapping
        else None,
        provider_mapping={key: tuple(dict.fromkeys(uuids)) for key, uuids in mapping.items()},
    )


def request_id(nova: Any) -> str:
    """Return by what the devices of a request are recognised."""
    return str(nova.request_id or nova.alias_name)


def _request(nova: Any) -> PciRequest:
    return PciRequest(
        count=nova.count,
        request_id=request_id(nova),
        alias_name=nova.alias_name,
        spec=tuple(dict(_spec(spec)) for spec in nova.spec),
        # That of the flavor counts when Nova makes the request, and no other one later.
        numa_policy=nova.numa_policy or LEGACY,
        # Of a flavor, too: the conductor has replaced the flavor's aliases by such documents.
        source="neutron_port",
        requester_id=nova.requester_id if "requester_id" in nova else None,
    )


def _spec(nova: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for key, value in nova.items():
        if key != _PROVIDERS:
            yield key, None if value is None else str(value)


def _providers(nova: Any) -> list[str]:
    """Return the provider of each device of a request."""
    uuids = nova.spec[0].get(_PROVIDERS) if nova.spec else None
    return uuids.split(",") if uuids else []


#: Without a limit Nova does not judge shared vCPUs and memory of a cell: its filter has.
UNLIMITED = 1_000_000.0


def limits(nova: Any) -> Limits:
    """Return the limits of a claim.

    :param nova: a SchedulerLimits, its dict, or None.
    """
    values = nova.to_dict() if isinstance(nova, objects.SchedulerLimits) else nova or {}
    numa = values.get("numa_topology")
    if not numa:
        return Limits(numa_topology=_numa(UNLIMITED, UNLIMITED))
    if isinstance(numa, dict):
        numa = objects.NUMATopologyLimits.obj_from_db_obj(numa)
    network = numa.network_metadata if "network_metadata" in numa else None
    return Limits(
        numa_topology=_numa(
            numa.cpu_allocation_ratio, numa.ram_allocation_ratio, network and _networks(network)
        )
    )


def _numa(cpu: float, ram: float, network: NetworkMetadata | None = None) -> NumaLimits:
    return NumaLimits(cpu_allocation_ratio=cpu, ram_allocation_ratio=ram, network_metadata=network)


def _networks(nova: Any) -> NetworkMetadata:
    return NetworkMetadata(physnets=tuple(sorted(nova.physnets)), tunneled=bool(nova.tunneled))


def migration_facts(nova: Any) -> MigrationFacts:
    """Return the facts of a migration. Its status is not one: it is that of another database."""
    names = ("uuid", "migration_type", "source_compute", "source_node", "dest_compute", "dest_node")
    return MigrationFacts(**{name: getattr(nova, name) for name in (*names, "dest_host")})


def quantities(state: NodeState, allocations: Any) -> Iterator[AssignedQuantity]:
    """Yield what Placement has allocated to an instance of the classes that provider files offer on
    a node, and of its contexts for the encryption of memory.

    :param allocations: of the instance, by provider uuid, or None.
    """
    pools = ProviderPools(state)
    for (uuid, name), suffix in {**pools.additional, **pools.contexts}.items():
        allocation = (allocations or {}).get(uuid)
        if allocation and (number := allocation["resources"].get(name)):
            yield AssignedQuantity(
                provider=uuid, suffix=suffix, resource_class=name, quantity=number
            )


def requested_quantities(state: NodeState, nova: Any, image: Any) -> Iterator[AssignedQuantity]:
    """Yield the same by what an instance asks for, if its allocations are not known. The first
    provider that offers a class has all of it.

    :param nova: a flavor. :param image: an ImageMeta.
    """
    pools, asked = ProviderPools(state), Counter[str]()
    specs = nova.extra_specs if "extra_specs" in nova else {}
    for _, _, name, value in replace(NO_FLAVOR, extra_specs=specs).in_request_groups:
        asked[name] += int(value)
    model = encryption_model(nova, image)
    contexts = {
        pool: suffix
        for pool, suffix in pools.contexts.items()
        if model is not None and suffix == provider_suffix(model)
    }
    asked.update(name for _, name in contexts)
    for (uuid, name), suffix in {**pools.additional, **contexts}.items():
        if number := asked.pop(name, 0):
            yield AssignedQuantity(
                provider=uuid, suffix=suffix, resource_class=name, quantity=number
            )
