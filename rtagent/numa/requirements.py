"""The requirements of a guest for the host's CPUs, NUMA cells and memory pages."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from rtagent.model.assignment import CpuTopology
from rtagent.model.base import Value
from rtagent.model.cpuset import MAX_CPU
from rtagent.model.device import PCI_NUMA_POLICIES
from rtagent.model.pages import ANY, LARGE, BadPageSize, PageRequest, parse_request
from rtagent.model.request import NetworkMetadata
from rtagent.numa.cpu_policies import (
    EMULATOR_ISOLATE,
    PREFER,
    SHARED,
    cpu_policy,
    dedicated_cpus,
    emulator_threads_policy,
    realtime_cpus,
    requested_pcpus,
    thread_policy,
)
from rtagent.numa.cpu_topology import cpu_topology
from rtagent.numa.guest_cells import GuestCell, guest_cells, numa_nodes
from rtagent.numa.properties import Properties, Property, conflict, overriding

#: The number of possible CPU numbers. The code builds sets of vCPUs, so their size needs a limit.
MAX_VCPUS = MAX_CPU + 1


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

    cells: tuple[GuestCell, ...] = ()
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
            "the image may set a page size only where the flavor says large or any",
            flavor,
            image,
        )
    found = image or flavor
    return _parsed(found) if found else None


def locked_memory(properties: Properties) -> bool:
    """Return ``hw:locked_memory``: whether the guest's memory is never swapped out.

    :raises InvalidFlavor: the image and the flavor differ, or no page size is set.
    """
    flavor, image = pair = properties.pair("hw:locked_memory")
    if flavor and image and flavor.boolean() != image.boolean():
        raise pair.conflict("the image may not differ from the flavor")
    found = flavor or image
    locked = bool(found and found.boolean())
    if locked and not any(properties.pair("hw:mem_page_size")):
        raise conflict("locked memory requires hw:mem_page_size", found)
    return locked


def pci_numa_affinity_policy(properties: Properties) -> str | None:
    """Return ``hw:pci_numa_affinity_policy``: the required NUMA affinity of devices to the guest's
    cells.

    :raises InvalidFlavor: it is not a policy, or the image and the flavor differ.
    """
    for found in filter(None, properties.typed("hw:pci_numa_affinity_policy")):
        found.one_of(PCI_NUMA_POLICIES)
    agreed = properties.agreed("hw:pci_numa_affinity_policy")
    return agreed.value if agreed else None


def _pcpus(properties: Properties, dedicated: int, emulator: str | None) -> int:
    """Return the number of host CPUs that the guest takes, which ``resources:PCPU`` must equal.

    :param dedicated: the number of its dedicated vCPUs.
    """
    needed = dedicated + int(emulator == EMULATOR_ISOLATE)
    requested = requested_pcpus(properties)
    if requested and requested != needed:
        raise conflict(
            f"the guest needs {needed} PCPU, an isolated emulator's included",
            *properties.in_request_groups("resources", "PCPU"),
            properties.flavor_vcpus,
            properties.extra_spec("hw:emulator_threads_policy"),
        )
    return needed


def _parsed(found: Property) -> PageRequest:
    try:
        return parse_request(found.value)
    except BadPageSize as error:
        raise found.invalid(str(error)) from error
