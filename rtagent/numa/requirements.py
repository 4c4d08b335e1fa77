"""The requirements of a guest for the host's CPUs, NUMA cells and memory pages."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rtagent.model.assignment import CpuTopology
from rtagent.model.base import Value
from rtagent.model.cpuset import MAX_CPU
from rtagent.model.device import PCI_NUMA_POLICIES
from rtagent.model.request import NetworkMetadata
from rtagent.model.units import ANY, LARGE, BadPageSize, PageRequest, parse_request
from rtagent.numa.cpu_policies import (
    EMULATOR_ISOLATE,
    PREFER,
    SHARED,
    cpu_policy,
    cpu_topology,
    dedicated_cpus,
    emulator_threads_policy,
    realtime_cpus,
    requested_cpus,
    thread_policy,
)
from rtagent.numa.properties import Properties, Property, conflict, overriding

#: Nova's limit on guest cells that are described one by one.
MAX_CELLS = 128

#: The number of possible CPU numbers. The code builds sets of vCPUs, so their size needs a limit.
MAX_VCPUS = MAX_CPU + 1


class DescribedCell(Value, frozen=True, kw_only=True):
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
) -> tuple[DescribedCell, ...]:
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
        DescribedCell(
            cpuset=vcpus - dedicated, pcpuset=vcpus & dedicated, memory=mb, pagesize=pagesize
        )
        for vcpus, mb in cells
    )


def numa_nodes(properties: Properties) -> int | None:
    """Return ``hw:numa_nodes``, which the flavor or the image may set; None: neither sets it.

    :raises InvalidFlavor: it is not an integer above 0, or both set it.
    """
    pair = properties.typed("hw:numa_nodes")
    if pair.flavor and pair.image:
        raise pair.conflict("the image may not set what the flavor sets")
    setting = pair.flavor or pair.image
    return setting.integer() if setting else None


def _per_cell(properties: Properties, name: str) -> tuple[Property, ...]:
    """Return the values for cells 0, 1, ... up to the first unset one. The flavor or the image may
    set them, not both. An empty value counts as set: it describes a cell incompletely.
    """
    pairs = (properties.given(f"{name}.{cell}") for cell in range(MAX_CELLS))
    described = list(itertools.takewhile(any, pairs))
    flavor = tuple(_until_unset(pair.flavor for pair in described))
    image = tuple(_until_unset(pair.image for pair in described))
    if flavor and image:
        raise overriding("the image may not set what the flavor sets", *flavor, *image)
    return flavor or image


def _until_unset(values: Iterable[Property | None]) -> Iterator[Property]:
    for value in values:
        if value is None:
            return
        yield value


def _has_value(setting: Property) -> bool:
    return bool(setting.value.strip())


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
    sets, sizes = [listed.cpus() for listed in cpus], [size.integer() for size in memory]
    listed = sorted(cpu for cell in sets for cpu in cell)
    if listed != list(range(properties.vcpus)):
        raise conflict(
            "each of the vCPUs must be in exactly one cell", properties.flavor_vcpus, *cpus
        )
    if sum(sizes) != properties.memory_mb:
        raise conflict(
            f"the memory of the cells adds up to {sum(sizes)} MB", properties.flavor_memory, *memory
        )
    return list(zip(sets, sizes, strict=True))


class CellRequirements(Value, frozen=True, kw_only=True):
    """The requirements of one guest cell, without the numbers of its vCPUs, so that equal cells are
    fitted only once.

    :ivar vcpus: the number of its shared vCPUs. :ivar pcpus: the number of its dedicated vCPUs.
    :ivar reserved: the number of host CPUs for the emulator, which are assigned to guest cell 0.
    :ivar memory: MB. :ivar pagesize: None: no explicit size.
    """

    vcpus: int
    pcpus: int
    reserved: int
    memory: int
    pagesize: PageRequest | None
    cpu_policy: str
    cpu_thread_policy: str


class NumaRequirements(Value, frozen=True, kw_only=True):
    """The requirements of a guest for CPUs, cells and pages.

    :ivar cells: its cells. Empty if nothing requires a NUMA topology: no cells, no page size, no
        dedicated CPUs and no persistent memory are requested.
    :ivar vcpus: the number of its shared vCPUs.
    :ivar pcpus: the number of host CPUs that it takes, including that of an isolated emulator.
    :ivar emulator_threads_policy: None: the emulator runs with the vCPUs.
    :ivar realtime: its realtime vCPUs.
    :ivar pci_numa_affinity_policy: None: neither flavor nor image sets one.
    :ivar networks: those that the guest is attached to.
    """

    cells: tuple[DescribedCell, ...] = ()
    vcpus: int
    pcpus: int = 0
    cpu_policy: str = SHARED
    cpu_thread_policy: str = PREFER
    emulator_threads_policy: str | None = None
    realtime: frozenset[int] = frozenset()
    pci_numa_affinity_policy: str | None = None
    cpu_topology: CpuTopology
    locked_memory: bool = False
    networks: NetworkMetadata = NetworkMetadata()

    @property
    def only_realtime(self) -> bool:
        """Whether all of its vCPUs are realtime."""
        return bool(self.realtime) and all(cell.vcpus <= self.realtime for cell in self.cells)

    def by_cell(self) -> tuple[CellRequirements, ...]:
        """Return the requirements of each guest cell."""
        isolated = self.emulator_threads_policy == EMULATOR_ISOLATE
        return tuple(
            CellRequirements(
                vcpus=len(cell.cpuset),
                pcpus=len(cell.pcpuset),
                reserved=int(isolated and number == 0),
                memory=cell.memory,
                pagesize=cell.pagesize,
                cpu_policy=self.cpu_policy,
                cpu_thread_policy=self.cpu_thread_policy,
            )
            for number, cell in enumerate(self.cells)
        )

    def with_page_sizes(self, sizes: Sequence[int | None]) -> NumaRequirements:
        """Return the same requirements with the page sizes that the guest has now.

        A live migration cannot change them. If there are not as many sizes as cells, the
        requirements are returned unchanged.

        :param sizes: KiB, by guest cell; None: no explicit size.
        """
        if len(self.cells) != len(sizes):
            return self
        cells = zip(self.cells, sizes, strict=True)
        return replace(self, cells=tuple(replace(cell, pagesize=size) for cell, size in cells))


def numa_requirements(
    vcpus: int, memory_mb: int, extra_specs: Mapping[str, str], image: Mapping[str, str]
) -> NumaRequirements:
    """Derive the requirements of a guest from its flavor and image.

    :param memory_mb: MB. :param image: the image's properties.
    :raises InvalidFlavor: naming the properties concerned and the rule that they break.
    """
    return _requirements(
        Properties(vcpus=vcpus, memory_mb=memory_mb, extra_specs=extra_specs, image=image)
    )


@functools.lru_cache(maxsize=256)  # guests share few flavors and images
def _requirements(properties: Properties) -> NumaRequirements:
    if properties.vcpus > MAX_VCPUS:
        raise conflict(f"a guest has at most {MAX_VCPUS} vCPUs", properties.flavor_vcpus)
    policy = cpu_policy(properties)
    threads = thread_policy(properties, policy)
    emulator = emulator_threads_policy(properties, policy)
    realtime = realtime_cpus(properties, policy, emulator)
    dedicated = dedicated_cpus(properties, policy, realtime)
    pagesize = page_request(properties)
    pcpus = _pcpus(properties, len(dedicated), emulator)
    has_pmem = bool(properties.extra_specs.get("hw:pmem"))
    has_cells = numa_nodes(properties) or pagesize or dedicated or has_pmem
    return NumaRequirements(
        cells=guest_cells(properties, dedicated, pagesize) if has_cells else (),
        vcpus=properties.vcpus - len(dedicated),
        pcpus=pcpus,
        cpu_policy=policy,
        cpu_thread_policy=threads,
        emulator_threads_policy=emulator,
        realtime=realtime,
        pci_numa_affinity_policy=pci_numa_affinity_policy(properties),
        cpu_topology=cpu_topology(properties),
        locked_memory=locked_memory(properties),
    )


def page_request(properties: Properties) -> PageRequest | None:
    """Return ``hw:mem_page_size``; None: no explicit size.

    The image may choose a size only where the flavor says ``large`` or ``any``.

    :raises InvalidFlavor: it is not a page size, or the image may not set it.
    """
    flavor, image = properties.pair("hw:mem_page_size")
    if image and (flavor is None or _parsed(flavor) not in (LARGE, ANY)):
        raise overriding(
            "the image may set a page size only where the flavor says large or any", flavor, image
        )
    setting = image or flavor
    return _parsed(setting) if setting else None


def locked_memory(properties: Properties) -> bool:
    """Return ``hw:locked_memory``: whether the guest's memory is never swapped out.

    :raises InvalidFlavor: the image and the flavor differ, or no page size is set.
    """
    flavor, image = pair = properties.pair("hw:locked_memory")
    if flavor and image and flavor.boolean() != image.boolean():
        raise pair.conflict("the image may not differ from the flavor")
    setting = flavor or image
    locked = bool(setting and setting.boolean())
    if locked and not any(properties.pair("hw:mem_page_size")):
        raise conflict("locked memory requires hw:mem_page_size", setting)
    return locked


def pci_numa_affinity_policy(properties: Properties) -> str | None:
    """Return ``hw:pci_numa_affinity_policy``: the required NUMA affinity of devices to the guest's
    cells.

    :raises InvalidFlavor: it is not a policy, or the image and the flavor differ.
    """
    for setting in filter(None, properties.typed("hw:pci_numa_affinity_policy")):
        setting.one_of(PCI_NUMA_POLICIES)
    agreed = properties.agreed("hw:pci_numa_affinity_policy")
    return agreed.value if agreed else None


def _pcpus(properties: Properties, dedicated: int, emulator: str | None) -> int:
    """Return the number of host CPUs that the guest takes, which ``resources:PCPU`` must equal.

    :param dedicated: the number of its dedicated vCPUs.
    """
    needed = dedicated + int(emulator == EMULATOR_ISOLATE)
    requested = requested_cpus(properties, "PCPU")
    if requested and requested != needed:
        raise conflict(
            f"the guest needs {needed} PCPU, an isolated emulator's included",
            *properties.in_request_groups("resources", "PCPU"),
            properties.flavor_vcpus,
            properties.extra_spec("hw:emulator_threads_policy"),
        )
    return needed


def _parsed(setting: Property) -> PageRequest:
    try:
        return parse_request(setting.value)
    except BadPageSize as error:
        raise setting.invalid(str(error)) from error
