"""Which vCPUs are realtime, and which of a mixed guest are dedicated."""

from __future__ import annotations

from rtagent.numa.cpu_policy import DEDICATED, MIXED, SHARED
from rtagent.numa.properties import Properties, Property, conflict


def realtime_cpus(
    properties: Properties, cpu_policy: str, emulator_threads_policy: str | None
) -> frozenset[int]:
    """The vCPUs with the realtime scheduler: all that ``hw:cpu_realtime_mask`` (the image's before
    the flavor's) leaves. At least one must be left out of them, unless the emulator's threads,
    which would starve among them, have a place of their own.

    :raises InvalidFlavor:
    """
    enabled = properties.extra_spec("hw:cpu_realtime")
    if enabled is None or not enabled.boolean():
        return frozenset()
    if cpu_policy == SHARED:
        raise conflict(
            "only dedicated CPUs are realtime",
            enabled,
            *properties.sides("hw:cpu_policy", cpu_policy),
        )
    vcpus = frozenset(range(properties.flavor.vcpus))
    flavor, image = properties.pair("hw:cpu_realtime_mask")
    mask = image or flavor
    realtime = _masked(mask, vcpus) if mask else vcpus
    if not realtime or (realtime == vcpus and emulator_threads_policy is None):
        raise conflict(
            "some vCPUs must be realtime and, unless hw:emulator_threads_policy is set, some not",
            enabled,
            mask,
            _size(properties),
        )
    return realtime


def dedicated_cpus(
    properties: Properties, cpu_policy: str, realtime: frozenset[int]
) -> frozenset[int]:
    """The vCPUs with a host CPU each: of a mixed guest those of ``hw:cpu_dedicated_mask``, or its
    realtime ones.

    :raises InvalidFlavor:
    """
    mask = properties.extra_spec("hw:cpu_dedicated_mask")
    policy = properties.sides("hw:cpu_policy", cpu_policy)
    if mask and cpu_policy != MIXED:
        raise conflict("only the CPU policy mixed has a mask of dedicated CPUs", mask, *policy)
    if mask and realtime:
        enabled = properties.extra_spec("hw:cpu_realtime")
        raise conflict("realtime CPUs are the dedicated ones: one mask must do", mask, enabled)
    if cpu_policy == MIXED and not (mask or realtime):
        raise conflict("mixed CPUs need hw:cpu_dedicated_mask or hw:cpu_realtime_mask", *policy)
    vcpus = frozenset(range(properties.flavor.vcpus))
    if mask:
        return _dedicated(mask, vcpus, properties)
    return {SHARED: frozenset[int](), MIXED: realtime, DEDICATED: vcpus}[cpu_policy]


def _dedicated(mask: Property, vcpus: frozenset[int], properties: Properties) -> frozenset[int]:
    dedicated = _masked(mask, vcpus)
    if not dedicated or dedicated == vcpus:
        raise conflict("some vCPUs must be dedicated, and some not", mask, _size(properties))
    return dedicated


def _masked(mask: Property, vcpus: frozenset[int]) -> frozenset[int]:
    """A mask that begins with ``^`` takes from all vCPUs, another says which."""
    excludes = mask.value.strip().startswith("^")
    cpus = mask.cpus(vcpus if excludes else frozenset())
    if not cpus <= vcpus:
        raise mask.invalid(f"the guest has no vCPUs beyond {len(vcpus) - 1}")
    return cpus


def _size(properties: Properties) -> Property:
    return Property("flavor.vcpus", str(properties.flavor.vcpus))
