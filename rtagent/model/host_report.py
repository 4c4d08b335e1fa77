"""HostReport: what an agent reports of its host to the schedulers.

A report is complete: together with the description that it names by digest, it is enough to decide
whether a claim fits, as the agent itself would.

A scheduler keeps the hosts of all agents in memory, so a host has bounds, far above any machine. A
scheduler sets a host beyond one of them aside, and names it.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from rtagent.model.assignment import ResourceInventory
from rtagent.model.base import (
    MAX_MEMBERS,
    Count,
    Document,
    Items,
    Members,
    Name,
    Positive,
    Quantity,
    Text,
    Uuid,
)
from rtagent.model.claim import Claim
from rtagent.model.device import PciDevice
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.metric import Metric
from rtagent.model.node import Node
from rtagent.model.policy import Policy
from rtagent.model.topology import Topology

#: Host CPUs, online or not: the most that Linux can be built for on x86 (``NR_CPUS``).
MAX_CPUS = 8192
#: NUMA cells. Their distances grow with the square.
MAX_CELLS = 256
#: Sizes of pages in one cell. Linux has two to four, as the architecture has.
MAX_PAGE_SIZES = 16
#: PCI devices that guests can have: 64 ports with 128 virtual functions each.
MAX_DEVICES = 8192
#: Pools of assigned resources, and the resources in all of them.
MAX_POOLS = 1024
MAX_RESOURCES = 16_384
#: Bytes of the JSON that describes the model of the CPU.
MAX_CPU_INFO = 2**16
#: Instances on the host.
MAX_INSTANCES = 4096
#: The most claims that end between two reports and are named.
MAX_ENDED = 4096

#: The number of owners, by host CPU.
_OfCpus = Annotated[Mapping[Count, Positive], Meta(max_length=MAX_CPUS)]


class HostDescription(Document, frozen=True, kw_only=True, weakref=True):
    """The part of a host that claims do not change. Equal hosts have equal descriptions."""

    topology: Topology
    policy: Policy
    devices: tuple[PciDevice, ...] = ()
    resource_inventories: tuple[ResourceInventory, ...] = ()


class CellUsage(Document, frozen=True, kw_only=True):
    """The usage of one cell. :ivar pages: of an explicit size, by size (KiB)."""

    id: Count
    vcpus: Quantity = 0
    memory_mb: Quantity = 0
    pages: Annotated[Mapping[Positive, Quantity], Meta(max_length=MAX_PAGE_SIZES)] = {}


class UsedQuantity(Document, frozen=True, kw_only=True):
    """A quantity in use. :ivar suffix: of the provider's name."""

    suffix: Name
    resource_class: Name
    quantity: Quantity


class ResourcePool(Document, frozen=True, kw_only=True):
    """A class of assigned resources that one provider has.

    :ivar provider: the address of the parent device, or "" for the host itself.
    """

    provider: Name
    resource_class: Name


class HostUsage(Document, frozen=True, kw_only=True):
    """The usage of the whole host, all owners together.

    A unit that several owners use has one entry for each of them, so that the units of one owner
    can be taken out of the total.

    :ivar pinned: the number of owners that use a host CPU, by CPU.
    :ivar kept: the number of owners that reserve it as an idle thread sibling, by CPU.
    :ivar devices: addresses of the devices in use as a whole.
    :ivar mdev_parents: addresses of devices of which mediated devices are in use.
    :ivar resources: identifiers of the assigned resources in use.
    :ivar former_pools: of assigned resources that claims have, and that no inventory has any more.
    """

    vcpus: Quantity = 0
    pcpus: Quantity = 0
    memory_mb: Quantity = 0
    disk_mb: Quantity = 0
    pinned: _OfCpus = {}
    kept: _OfCpus = {}
    cells: Annotated[tuple[CellUsage, ...], Meta(max_length=MAX_CELLS)] = ()
    quantities: Members[UsedQuantity] = ()
    devices: Annotated[tuple[Name, ...], Meta(max_length=2 * MAX_DEVICES)] = ()
    mdev_parents: Annotated[tuple[Name, ...], Meta(max_length=2 * MAX_DEVICES)] = ()
    resources: Annotated[tuple[Name, ...], Meta(max_length=2 * MAX_RESOURCES)] = ()
    former_pools: Annotated[tuple[ResourcePool, ...], Meta(max_length=MAX_POOLS)] = ()


class ServiceState(Document, frozen=True, kw_only=True):
    """The service as its record says.

    :ivar draining: the reason of the drain, which may be ""; None: the node does not drain.
    """

    disabled: bool = False
    disabled_reason: Text | None = None
    forced_down: bool = False
    draining: Text | None = None


class HostReport(Document, frozen=True, kw_only=True):
    """The state of a node at one revision.

    :ivar number: counts the changes of the state of the service, which has no revision.
    :ivar digest: of the `HostDescription`.
    :ivar description: None: a scheduler that has none with this digest asks for it.
    :ivar instances_digest: of the uuids of the instances on the host, see `InstanceInfo`.
    :ivar instances_revision: that of the last message about instances, so that a lost one is
        noticed.
    :ivar counters: Nova's statistics. :ivar disk_available_least: GB.
    :ivar up: the agent grants claims; :ivar why_not: else the reason.
    :ivar claims: uuids of the live claims, by which assumed claims are confirmed.
    :ivar ended: uuids of the claims that have ended since the report before. Another message need
        not have named them, so assumed claims end by this one.
    :ivar page_url: of the agent's own pages, or "". It is text: an agent may report anything.
    :ivar unknown: the running domains of which something is unknown, with that alone.
    """

    node: Node
    epoch: Count
    revision: Count
    number: Count = 0
    digest: Name
    description: HostDescription | None = None
    usage: HostUsage = HostUsage()
    service: ServiceState = ServiceState()
    up: bool = True
    why_not: Text = ""
    counters: Annotated[Mapping[Name, Count], Meta(max_length=2 * MAX_MEMBERS)] = {}
    failed_builds: Count = 0
    disk_available_least: int | None = None
    metrics: Items[Metric] = ()
    claims: Annotated[tuple[Uuid, ...], Meta(max_length=4 * MAX_INSTANCES)] = ()
    instances_digest: Name = ""
    instances_revision: Count = 0
    ended: Annotated[tuple[Uuid, ...], Meta(max_length=MAX_ENDED)] = ()
    page_url: Name = ""
    unknown: Members[DomainUsage] = ()


class InstanceInfo(Document, frozen=True, kw_only=True):
    """One owner on a host, with what it has there.

    :ivar here: the instance is on this host, rather than on its way to it or gone from it.
    :ivar claims: its live claims. :ivar domain_usage: of its domain, if that differs from them.
    """

    uuid: Uuid
    here: bool = True
    claims: tuple[Claim, ...] = ()
    domain_usage: DomainUsage | None = None


def _bounds(description: HostDescription) -> Iterator[tuple[str, int, str, int]]:
    """Yield the path in a description, and what is counted there: its number, name and bound."""
    topology, pools = description.topology, description.resource_inventories
    cells = topology.cells
    yield ".topology.cpus", len(topology.cpus), "host CPUs", MAX_CPUS
    yield ".topology.cells", len(cells), "NUMA cells", MAX_CELLS
    cpus = sum(len(cell.cpus) + len(cell.offline) for cell in cells)
    yield ".topology.cells", cpus, "host CPUs in NUMA cells", MAX_CPUS
    threads = sum(len(cell.siblings) + sum(map(len, cell.siblings)) for cell in cells)
    yield ".topology.cells", threads, "cores and threads in NUMA cells", 2 * MAX_CPUS
    sizes = max((len(cell.pages) for cell in cells), default=0)
    yield ".topology.cells", sizes, "sizes of pages in a NUMA cell", MAX_PAGE_SIZES
    model = len(msgspec.json.encode(topology.cpu_info))
    yield ".topology.cpu_info", model, "bytes", MAX_CPU_INFO
    yield ".devices", len(description.devices), "PCI devices", MAX_DEVICES
    yield ".resource_inventories", len(pools), "pools of resources", MAX_POOLS
    resources = sum(len(pool.identifiers) + len(pool.namespaces) for pool in pools)
    yield ".resource_inventories", resources, "assigned resources", MAX_RESOURCES


def beyond_bounds(description: HostDescription) -> Iterator[tuple[str, str]]:
    """Yield each bound that a host is beyond: the path in its description, and a sentence."""
    for path, number, what, most in _bounds(description):
        if number > most:
            yield path, _sentence(number, what, most)


def beyond_instances(number: int) -> Iterator[str]:
    """Yield a sentence if a host has too many instances."""
    if number > MAX_INSTANCES:
        yield _sentence(number, "instances", MAX_INSTANCES)


def _sentence(number: int, what: str, most: int) -> str:
    return f"has {number} {what}, and a host has at most {most}"
