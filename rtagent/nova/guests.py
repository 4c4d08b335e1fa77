"""Nova's instances as rtagent's documents: flavor, image, facts."""

from __future__ import annotations

from typing import Any

from nova import objects

from rtagent.model.request import Flavor, Image, Instance, InstanceUpdate, PciRequest

#: Keys of a flavor's extra specs that state amounts. Of the keys that start with one of `_OTHERS`
#: they are the only ones that say something about the host; Placement decides on the rest.
_AMOUNTS = frozenset(
    {"resources:VCPU", "resources:PCPU", "resources:MEMORY_MB", "resources:DISK_GB"}
)
_OTHERS = ("resources", "trait", "group_policy", "pci_passthrough:alias", "aggregate_")
#: Placement has the contexts of encrypted memory, and Nova's driver knows the models.
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
            if key in _AMOUNTS or not key.startswith((*_OTHERS, _ENCRYPTION))
        },
    )


def image(nova: Any, *, has_cells: bool = True) -> Image:
    """Return the document of an image.

    :param nova: an ImageMeta, or its dict. :param has_cells: see `flavor`.
    """
    meta = objects.ImageMeta.from_dict(nova) if isinstance(nova, dict) else nova
    if not has_cells or not meta or not meta.obj_attr_is_set("properties"):
        return Image()
    properties: dict[str, str] = {}
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
    flavor: Flavor,
    image: Image,
    pci_requests: tuple[PciRequest, ...] = (),
    *,
    is_volume_backed: bool,
) -> Instance:
    """Return the document of an instance, as it is or as it will be on this host."""
    return Instance(
        uuid=nova.uuid,
        flavor=flavor,
        image=image,
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
