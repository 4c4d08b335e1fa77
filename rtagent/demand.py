"""What a request asks for, told from its flavor, its image and what it names besides."""

from __future__ import annotations

from collections.abc import Iterator

from rtagent.model.base import MB_IN_GB, Value
from rtagent.model.flavor import Flavor
from rtagent.model.request import BuildRequest, ExtraResource
from rtagent.numa.constraints import Constraints, constraints

#: The classes that have amounts of their own, here or in `Constraints`.
PLAIN_CLASSES = frozenset({"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"})


class Demand(Value, frozen=True, kw_only=True):
    """:ivar vcpus: shared ones. :ivar pcpus: dedicated CPUs. :ivar memory_mb: MB.
    :ivar disk_mb: MB. :ivar place: what is asked of CPUs, cells and pages.
    :ivar others: (resource, how many) of each thing that is neither.
    """

    vcpus: int
    pcpus: int
    memory_mb: int
    disk_mb: int
    place: Constraints
    others: tuple[tuple[str, int], ...] = ()


def of(request: BuildRequest) -> Demand:
    """All that a build asks of the host.

    :raises InvalidFlavor: flavor and image, taken together, describe no guest.
    """
    flavor, extra = request.instance.flavor, request.extra_resource
    place = constraints(flavor, request.instance.image)
    disk = disk_mb(flavor, request.instance.is_volume_backed)
    return Demand(
        vcpus=place.vcpus + _amount(extra, "VCPU"),
        pcpus=place.pcpus,
        memory_mb=flavor.memory_mb + _amount(extra, "MEMORY_MB"),
        disk_mb=disk + _amount(extra, "DISK_GB") * MB_IN_GB,
        place=place,
        others=tuple(_others(request)),
    )


def disk_mb(flavor: Flavor, is_volume_backed: bool) -> int:
    """MB on the host's own disks: root (none when it is a volume), ephemeral, swap, exactly."""
    root = 0 if is_volume_backed else flavor.root_gb
    return (root + flavor.ephemeral_gb) * MB_IN_GB + flavor.swap


def _amount(extra: ExtraResource, resource: str) -> int:
    asked = extra.get(resource, 0)
    return asked if isinstance(asked, int) else 0


def _others(request: BuildRequest) -> Iterator[tuple[str, int]]:
    yield from _properties(request.instance.flavor)
    yield from _extra(request.extra_resource)
    for asked in request.instance.pci_requests:
        yield f"PCI {asked.alias_name or asked.request_id or 'device'}", asked.count


def _properties(flavor: Flavor) -> Iterator[tuple[str, int]]:
    """Devices, and classes of resources (``resources:CLASS``) that are none of the plain ones."""
    for key, value in flavor.extra_specs.items():
        group, _, name = key.partition(":")
        named = group.startswith("resources") and name not in PLAIN_CLASSES
        if key in ("pci_passthrough:alias", "hw:pmem"):
            yield f"{key}={value}", 1
        elif named and value.isdigit() and int(value) > 0:
            yield name, int(value)


def _extra(extra: ExtraResource) -> Iterator[tuple[str, int]]:
    for resource, asked in extra.items():
        if not isinstance(asked, int):
            yield resource, len(asked)
        elif resource not in PLAIN_CLASSES - {"PCPU"}:
            yield resource, asked
