"""What a flavor and an image, taken together, ask of the host's CPUs, cells and pages."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from msgspec.structs import replace

from rtagent.model.assignment import CpuTopology
from rtagent.model.base import Value
from rtagent.model.cpuset import MAX_CPU
from rtagent.model.flavor import Flavor, Image
from rtagent.numa import emulator
from rtagent.numa.cpu_policy import SHARED, cpu_policy, requested_pcpus
from rtagent.numa.emulator import emulator_threads_policy
from rtagent.numa.guest import GuestCell, guest_cells, numa_nodes
from rtagent.numa.guest_cpus import cpu_topology
from rtagent.numa.masks import dedicated_cpus, realtime_cpus
from rtagent.numa.page_request import locked_memory, page_request
from rtagent.numa.pci_policy import pci_numa_affinity_policy
from rtagent.numa.properties import Properties, Property, conflict
from rtagent.numa.thread_policy import PREFER, thread_policy

#: As many as there can be CPU numbers; sets of vCPUs are built, so that their size must be bounded.
MAX_VCPUS = MAX_CPU + 1


class Constraints(Value, frozen=True, kw_only=True):
    """:ivar cells: the guest's; none when it asks for no NUMA topology, whether by its cells, by
        pages, by dedicated CPUs or by persistent memory.
    :ivar vcpus: how many of its vCPUs are shared. :ivar pcpus: how many host CPUs it takes, the one
        of its emulator included.
    :ivar emulator_threads_policy: None: the emulator runs with the vCPUs.
    :ivar realtime: vCPUs. :ivar pci_numa_affinity_policy: None: nothing is said.
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

    @property
    def reserved_pcpus(self) -> int:
        """How many host CPUs guest cell 0 takes for the emulator."""
        return int(self.emulator_threads_policy == emulator.ISOLATE)


def constraints(flavor: Flavor, image: Image) -> Constraints:
    """:raises InvalidFlavor: naming the properties concerned and the rule that they break."""
    return _constraints(Properties(flavor, image))


@functools.lru_cache(maxsize=256)  # a host's guests are of few flavors and images
def _constraints(properties: Properties) -> Constraints:
    flavor = properties.flavor
    if flavor.vcpus > MAX_VCPUS:
        raise conflict(f"a guest has at most {MAX_VCPUS} vCPUs", *_size(flavor))
    policy = cpu_policy(properties)
    threads = thread_policy(properties, policy)
    emulator_policy = emulator_threads_policy(properties, policy)
    realtime = realtime_cpus(properties, policy, emulator_policy)
    dedicated = dedicated_cpus(properties, policy, realtime)
    pagesize = page_request(properties)
    reserved = int(emulator_policy == emulator.ISOLATE)
    _check_pcpus(properties, flavor.vcpus + reserved)
    wanted = numa_nodes(properties) or pagesize or dedicated or flavor.extra_specs.get("hw:pmem")
    return Constraints(
        cells=guest_cells(properties, dedicated, pagesize) if wanted else (),
        vcpus=flavor.vcpus - len(dedicated),
        pcpus=len(dedicated) + reserved,
        cpu_policy=policy,
        cpu_thread_policy=threads,
        emulator_threads_policy=emulator_policy,
        realtime=realtime,
        pci_numa_affinity_policy=pci_numa_affinity_policy(properties),
        cpu_topology=cpu_topology(properties),
        locked_memory=locked_memory(properties),
    )


def with_page_sizes(asked: Constraints, sizes: Sequence[int | None]) -> Constraints:
    """The same guest with the page sizes that it has elsewhere, which a live migration cannot
    change.

    :param sizes: KiB, by guest cell; None: no explicit size.
    """
    if len(asked.cells) != len(sizes):
        return asked
    return replace(
        asked,
        cells=tuple(
            replace(cell, pagesize=size) for cell, size in zip(asked.cells, sizes, strict=True)
        ),
    )


def _check_pcpus(properties: Properties, needed: int) -> None:
    asked = requested_pcpus(properties)
    if asked and asked != needed:
        raise conflict(
            f"the guest needs {needed} PCPU, that of an isolated emulator included",
            *properties.grouped("resources", "PCPU"),
            *_size(properties.flavor),
            properties.extra_spec("hw:emulator_threads_policy"),
        )


def _size(flavor: Flavor) -> tuple[Property, ...]:
    return (Property("flavor.vcpus", str(flavor.vcpus)),)
