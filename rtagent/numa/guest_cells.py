"""The NUMA cells of a guest, as described by its flavor or image."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.model.pages import PageRequest
from rtagent.numa.properties import Properties, Property, conflict, overriding

#: Nova's limit on guest cells that are described one by one.
MAX_CELLS = 128


class GuestCell(Value, frozen=True, kw_only=True):
    """One NUMA cell of a guest.

    :ivar cpuset: its shared vCPUs. :ivar pcpuset: its dedicated vCPUs. :ivar memory: MB.
    :ivar pagesize: which pages the memory must consist of; None: no explicit size.
    """

    cpuset: frozenset[int]
    pcpuset: frozenset[int]
    memory: int
    pagesize: PageRequest | None = None

    @property
    def vcpus(self) -> frozenset[int]:
        """All vCPUs of the cell."""
        return self.cpuset | self.pcpuset


def guest_cells(
    properties: Properties, dedicated: frozenset[int], pagesize: PageRequest | None
) -> tuple[GuestCell, ...]:
    """Divide the guest into cells.

    The guest has ``hw:numa_nodes`` cells (1 by default). They have equal sizes, unless
    ``hw:numa_cpus.N`` and ``hw:numa_mem.N`` are both set for each cell.

    :param dedicated: the dedicated vCPUs.
    :raises InvalidFlavor: the flavor and the image describe no valid cells.
    """
    count = numa_nodes(properties)
    cpus, memory = _per_cell(properties, "hw:numa_cpus"), _per_cell(properties, "hw:numa_mem")
    described = (*cpus, *memory)
    if not described:
        cells = _equal(properties, count or 1)
    elif len(cpus) == len(memory) == (count or 1) and all(map(_has_value, described)):
        cells = _described(properties, cpus, memory)
    else:
        raise conflict(
            f"CPUs and memory must be given for each guest cell ({count or 1}), or for none",
            *properties.pair("hw:numa_nodes"),
            *described,
        )
    return tuple(
        GuestCell(cpuset=vcpus - dedicated, pcpuset=vcpus & dedicated, memory=mb, pagesize=pagesize)
        for vcpus, mb in cells
    )


def numa_nodes(properties: Properties) -> int | None:
    """Return ``hw:numa_nodes``, which the flavor or the image may set; None: neither sets it.

    :raises InvalidFlavor: it is not an integer above 0, or both set it.
    """
    pair = properties.typed("hw:numa_nodes")
    if pair.flavor and pair.image:
        raise pair.conflict("the image may not set what the flavor sets")
    found = pair.flavor or pair.image
    return found.integer() if found else None


def _per_cell(properties: Properties, name: str) -> tuple[Property, ...]:
    """Return the values for cells 0, 1, ... up to the first unset one. The flavor or the image may
    set them, not both. An empty value counts as set: it describes a cell incompletely.
    """
    pairs = [properties.given(f"{name}.{cell}") for cell in range(MAX_CELLS)]
    flavor, image = (_until_unset(values) for values in zip(*pairs, strict=True))
    if flavor and image:
        raise overriding("the image may not set what the flavor sets", *flavor, *image)
    return flavor or image


def _until_unset(values: tuple[Property | None, ...]) -> tuple[Property, ...]:
    end = values.index(None) if None in values else len(values)
    return tuple(value for value in values[:end] if value)


def _has_value(found: Property) -> bool:
    return bool(found.value.strip())


def _equal(properties: Properties, count: int) -> list[tuple[frozenset[int], int]]:
    """Return the vCPUs and MB of each cell, for this number of equal cells."""
    if properties.vcpus % count or properties.memory_mb % count:
        raise conflict(
            "vCPUs and memory cannot be divided evenly: describe each cell",
            *properties.pair("hw:numa_nodes"),
            properties.flavor_vcpus,
            properties.flavor_memory,
        )
    vcpus, memory = properties.vcpus // count, properties.memory_mb // count
    return [(frozenset(range(n * vcpus, (n + 1) * vcpus)), memory) for n in range(count)]


def _described(
    properties: Properties, cpus: tuple[Property, ...], memory: tuple[Property, ...]
) -> list[tuple[frozenset[int], int]]:
    """Return the vCPUs and MB of each cell that is described."""
    sets, sizes = [each.cpus() for each in cpus], [each.integer() for each in memory]
    listed = sorted(cpu for cell in sets for cpu in cell)
    if listed != list(range(properties.vcpus)):
        raise conflict(
            "each of the vCPUs must be in exactly one cell", properties.flavor_vcpus, *cpus
        )
    if sum(sizes) != properties.memory_mb:
        raise conflict(
            f"the memory of the cells adds up to {sum(sizes)} MB",
            properties.flavor_memory,
            *memory,
        )
    return list(zip(sets, sizes, strict=True))
