"""What a request asks for, told from its flavor, its image and what it names besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rtagent.model.base import Value
from rtagent.model.flavor import Flavor, Image
from rtagent.model.request import BuildRequest, ExtraResource
from rtagent.model.usage import Usage

MB_IN_GB = 1024

#: Values with which a CPU, memory or thread property asks for nothing out of the ordinary.
ORDINARY: Mapping[str, frozenset[str]] = {
    "hw:cpu_policy": frozenset({"shared"}),
    "hw:mem_page_size": frozenset({"small", "any"}),
    "hw:emulator_threads_policy": frozenset({"share"}),
    "hw:cpu_realtime": frozenset({"no", "false", "0"}),
    "hw:numa_nodes": frozenset(),
}

#: The classes that a flavor's own fields speak of.
PLAIN_CLASSES = frozenset({"VCPU", "MEMORY_MB", "DISK_GB"})


class Demand(Value, frozen=True, kw_only=True):
    """:ivar amounts: what is added to the node's usage.
    :ivar others: (resource, how many) of each thing that is more than an amount.
    """

    amounts: Usage
    others: tuple[tuple[str, int], ...] = ()


def of(request: BuildRequest) -> Demand:
    """All that a build asks of the host."""
    flavor, image = request.instance.flavor, request.instance.image
    extra = request.extra_resource
    return Demand(
        amounts=Usage(
            vcpus=flavor.vcpus + _amount(extra, "VCPU"),
            memory_mb=flavor.memory_mb + _amount(extra, "MEMORY_MB"),
            disk_mb=disk_mb(flavor, request.instance.is_volume_backed)
            + _amount(extra, "DISK_GB") * MB_IN_GB,
        ),
        others=(
            *_properties(flavor, image),
            *_classes(flavor),
            *_extra(extra),
            *(
                (f"PCI {r.alias_name or r.request_id or 'device'}", r.count)
                for r in request.instance.pci_requests
            ),
        ),
    )


def disk_mb(flavor: Flavor, is_volume_backed: bool) -> int:
    """MB on the host's own disks: root (none when it is a volume), ephemeral, swap, exactly."""
    root = 0 if is_volume_backed else flavor.root_gb
    return (root + flavor.ephemeral_gb) * MB_IN_GB + flavor.swap


def _amount(extra: ExtraResource, resource: str) -> int:
    asked = extra.get(resource, 0)
    return asked if isinstance(asked, int) else 0


def _properties(flavor: Flavor, image: Image) -> Iterator[tuple[str, int]]:
    for name, ordinary in ORDINARY.items():
        for source, key in ((flavor.extra_specs, name), (image.properties, name.replace(":", "_"))):
            value = source.get(key)
            if value is not None and value.lower() not in ordinary:
                yield f"{key}={value}", flavor.vcpus
    alias = flavor.extra_specs.get("pci_passthrough:alias")
    if alias:
        yield f"pci_passthrough:alias={alias}", 1


def _classes(flavor: Flavor) -> Iterator[tuple[str, int]]:
    for key, value in flavor.extra_specs.items():
        group, _, resource = key.partition(":")
        named = group.startswith("resources") and resource not in PLAIN_CLASSES
        if named and value.isdigit() and int(value) > 0:
            yield resource, int(value)


def _extra(extra: ExtraResource) -> Iterator[tuple[str, int]]:
    for resource, asked in extra.items():
        if not isinstance(asked, int):
            yield resource, len(asked)
        elif resource not in PLAIN_CLASSES:
            yield resource, asked
