"""The sockets, cores and threads that a guest sees."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rtagent.model.assignment import CpuTopology
from rtagent.numa.properties import Properties, Property, conflict, overriding

_PARTS = ("sockets", "cores", "threads")

#: No limit, and no preference.
_UNSET = 0


def cpu_topology(properties: Properties) -> CpuTopology:
    """Return the CPU topology that the flavor and the image prefer.

    It satisfies as many as possible of ``hw:cpu_sockets``, ``hw:cpu_cores`` and ``hw:cpu_threads``,
    within the limits ``hw:cpu_max_sockets``, ``hw:cpu_max_cores`` and ``hw:cpu_max_threads``. Of
    several such topologies, the one with the fewest threads is returned, then the one with the most
    sockets (Nova's order).

    :raises InvalidFlavor: the image exceeds a limit, or no topology is within the limits.
    """
    limits = tuple(_limit(properties, f"hw:cpu_max_{part}") for part in _PARTS)
    preferred = _preferred(properties, limits)
    possible = tuple(_within(properties.vcpus, limits))
    if not possible:
        raise conflict(
            "no arrangement of the vCPUs is within these limits",
            properties.flavor_vcpus,
            *(found for part in _PARTS for found in properties.given(f"hw:cpu_max_{part}")),
        )
    sockets, cores, threads = max(possible, key=lambda counts: _rank(counts, preferred))
    return CpuTopology(sockets=sockets, cores=cores, threads=threads)


def _limit(properties: Properties, name: str) -> int:
    """Return the limit of the image if it sets one, else the flavor's. The image may only lower the
    limit.
    """
    pair = properties.given(name)
    flavor, image = map(_number, pair)
    if flavor and image > flavor:
        raise pair.conflict("the image may only lower the flavor's limit")
    return image or flavor


def _preferred(properties: Properties, limits: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of sockets, cores and threads that the image prefers.

    If the image has no preference, the flavor's preference applies, except for a part that exceeds
    a limit (the image may have lowered the limit).

    :raises FlavorImageConflict: a preference of the image exceeds a limit.
    """
    pairs = [properties.given(f"hw:cpu_{part}") for part in _PARTS]
    flavor = tuple(_number(pair.flavor) for pair in pairs)
    image = tuple(_number(pair.image) for pair in pairs)
    for part, wanted, limit, pair in zip(_PARTS, image, limits, pairs, strict=True):
        if limit and wanted > limit:
            raise overriding(
                f"the image may not ask for more {part} than its own or the flavor's limit",
                pair.image,
                *properties.given(f"hw:cpu_max_{part}"),
            )
    if any(image):
        return image
    exceeds = any(limit and wanted > limit for wanted, limit in zip(flavor, limits, strict=True))
    return (_UNSET,) * 3 if exceeds else flavor


def _within(vcpus: int, limits: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    most = tuple(limit or vcpus for limit in limits)
    divisors = [number for number in range(1, vcpus + 1) if vcpus % number == 0]
    for sockets, cores in itertools.product(divisors, divisors):
        threads, rest = divmod(vcpus, sockets * cores)
        if not rest and sockets <= most[0] and cores <= most[1] and threads <= most[2]:
            yield sockets, cores, threads


def _rank(counts: tuple[int, int, int], preferred: tuple[int, ...]) -> tuple[int, int, int]:
    sockets, cores, _ = counts
    met = sum(has == wanted for has, wanted in zip(counts, preferred, strict=True))
    return met, sockets * cores, sockets


def _number(found: Property | None) -> int:
    return found.integer() if found else _UNSET
