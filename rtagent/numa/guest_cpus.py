"""Sockets, cores and threads, as the guest is to see them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rtagent.model.assignment import CpuTopology
from rtagent.numa.properties import Properties, Property, conflict, overriding

_PARTS = ("sockets", "cores", "threads")

#: Stands for no limit, and for no preference.
_UNSET = 0


def cpu_topology(properties: Properties) -> CpuTopology:
    """The arrangement of the flavor's vCPUs that comes closest to ``hw:cpu_sockets``,
    ``hw:cpu_cores`` and ``hw:cpu_threads`` within ``hw:cpu_max_sockets`` and so on; of equals the
    one with the fewest threads, then the one with the most sockets (Nova's order).

    :raises InvalidFlavor: the image exceeds the flavor's limits, or the limits allow none.
    """
    limits = _limits(properties)
    preferred = _preferred(properties, limits)
    possible = tuple(_within(properties.flavor.vcpus, limits))
    if not possible:
        raise conflict(
            "no arrangement of the vCPUs stays within these limits",
            Property("flavor.vcpus", str(properties.flavor.vcpus)),
            *(side for part in _PARTS for side in properties.pair(f"hw:cpu_max_{part}")),
        )
    sockets, cores, threads = max(possible, key=lambda shape: _rank(shape, preferred))
    return CpuTopology(sockets=sockets, cores=cores, threads=threads)


def _limits(properties: Properties) -> tuple[int, ...]:
    """Of sockets, cores and threads: the image's, which may only lower the flavor's."""
    return tuple(_limit(properties, f"hw:cpu_max_{part}") for part in _PARTS)


def _limit(properties: Properties, name: str) -> int:
    pair = properties.pair(name)
    flavor, image = map(_number, pair)
    if flavor and image > flavor:
        raise pair.conflict("the image may only lower the flavor's limit")
    return image or flavor


def _preferred(properties: Properties, limits: tuple[int, ...]) -> tuple[int, ...]:
    """The image's preference, or the flavor's if the image has none at all and nothing of the
    flavor's exceeds a limit (which the image may have lowered).

    :raises FlavorImageConflict: something of the image's exceeds a limit.
    """
    pairs = [properties.pair(f"hw:cpu_{part}") for part in _PARTS]
    flavor = tuple(_number(pair.flavor) for pair in pairs)
    image = tuple(_number(pair.image) for pair in pairs)
    for part, wanted, limit, pair in zip(_PARTS, image, limits, pairs, strict=True):
        if limit and wanted > limit:
            raise overriding(
                f"the image may not ask for more {part} than its own or the flavor's limit",
                pair.image,
                *properties.pair(f"hw:cpu_max_{part}"),
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


def _rank(shape: tuple[int, int, int], preferred: tuple[int, ...]) -> tuple[int, int, int]:
    sockets, cores, _ = shape
    met = sum(has == wanted for has, wanted in zip(shape, preferred, strict=True))
    return met, sockets * cores, sockets


def _number(side: Property | None) -> int:
    return side.integer() if side else _UNSET
