"""The guest's own NUMA cells, before any of them has a place."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.model.pages import PageRequest
from rtagent.numa.properties import Properties, Property, conflict, overriding

#: Nova's limit on guest cells that are described one by one.
MAX_CELLS = 128


class GuestCell(Value, frozen=True, kw_only=True):
    """One cell.

    :ivar cpuset: its shared vCPUs. :ivar pcpuset: its dedicated ones. :ivar memory: MB.
    :ivar pagesize: what pages it is to have; None: as it comes.
    """

    cpuset: frozenset[int]
    pcpuset: frozenset[int]
    memory: int
    pagesize: PageRequest | None = None


def guest_cells(
    properties: Properties, dedicated: frozenset[int], pagesize: PageRequest | None
) -> tuple[GuestCell, ...]:
    """As ``hw:numa_nodes`` says: of even size, or as ``hw:numa_cpus.N`` and ``hw:numa_mem.N`` say.

    :raises InvalidFlavor:
    """
    count = numa_nodes(properties)
    cpus, memory = _per_cell(properties, "hw:numa_cpus"), _per_cell(properties, "hw:numa_mem")
    if not cpus and not memory:
        shares = _even(properties, count)
    elif len(cpus) == len(memory) == (count or 1):
        shares = _explicit(properties, cpus, memory)
    else:
        raise conflict(
            "CPUs and memory must be given for each of the cells, or for none",
            *properties.sides("hw:numa_nodes", "1"),
            *cpus,
            *memory,
        )
    return tuple(
        GuestCell(cpuset=vcpus - dedicated, pcpuset=vcpus & dedicated, memory=mb, pagesize=pagesize)
        for vcpus, mb in shares
    )


def numa_nodes(properties: Properties) -> int | None:
    """``hw:numa_nodes``, which the flavor or the image may set, not both; None: neither does.

    :raises InvalidFlavor:
    """
    pair = properties.pair("hw:numa_nodes")
    if pair.flavor and pair.image:
        raise pair.conflict("the image may not set what the flavor sets")
    side = pair.flavor or pair.image
    return side.integer() if side else None


def _per_cell(properties: Properties, name: str) -> tuple[Property, ...]:
    """What the one side that has any says of cells 0, 1, ... up to the first left out."""
    pairs = [properties.pair(f"{name}.{cell}") for cell in range(MAX_CELLS)]
    flavor, image = (_until_none(side) for side in zip(*pairs, strict=True))
    if flavor and image:
        raise overriding("the image may not set what the flavor sets", *flavor, *image)
    return flavor or image


def _until_none(sides: tuple[Property | None, ...]) -> tuple[Property, ...]:
    there = sides.index(None) if None in sides else len(sides)
    return tuple(side for side in sides[:there] if side)


def _even(properties: Properties, count: int | None) -> list[tuple[frozenset[int], int]]:
    cells, flavor = count or 1, properties.flavor
    if flavor.vcpus % cells or flavor.memory_mb % cells:
        raise conflict(
            "vCPUs and memory do not divide evenly: say what each cell is to have",
            *properties.pair("hw:numa_nodes"),
            Property("flavor.vcpus", str(flavor.vcpus)),
            Property("flavor.memory_mb", str(flavor.memory_mb)),
        )
    vcpus, memory = flavor.vcpus // cells, flavor.memory_mb // cells
    return [(frozenset(range(n * vcpus, (n + 1) * vcpus)), memory) for n in range(cells)]


def _explicit(
    properties: Properties, cpus: tuple[Property, ...], memory: tuple[Property, ...]
) -> list[tuple[frozenset[int], int]]:
    vcpus, memory_mb = properties.flavor.vcpus, properties.flavor.memory_mb
    sets, sizes = [side.cpus() for side in cpus], [side.integer() for side in memory]
    listed = sorted(cpu for cell in sets for cpu in cell)
    if listed != list(range(vcpus)):
        raise conflict(
            "each of the vCPUs must be in exactly one cell",
            Property("flavor.vcpus", str(vcpus)),
            *cpus,
        )
    if sum(sizes) != memory_mb:
        raise conflict(
            f"the cells' memory makes {sum(sizes)} MB",
            Property("flavor.memory_mb", str(memory_mb)),
            *memory,
        )
    return list(zip(sets, sizes, strict=True))
