"""Stranded: what is free on a host, and no flavor of the catalogue can use.

A unit (a CPU, a page, a device, an assigned resource) is stranded if no placement of one further
guest, of any flavor, has it. Further guests only take more. So none gets it, in whatever order they
come, until something is given back or the host or the catalogue changes.

Reach: the CPUs and pages of a host that a guest could get, whichever placement is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from rtagent.allocation.capacity import capacity_of
from rtagent.allocation.kept_views import Reusable, device_fit, host_for_new_owners
from rtagent.capacity.catalogue import CatalogueFlavor
from rtagent.capacity.room import Room, room
from rtagent.model.assignment import ResourceInventory
from rtagent.model.base import Value
from rtagent.model.claim import PCI, RESOURCE
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.decision import Reason
from rtagent.model.node_state import NodeState
from rtagent.model.units import format_size
from rtagent.numa.candidates import CandidateRow, candidate_matrix, page_sizes
from rtagent.numa.cpu_policies import ISOLATE
from rtagent.numa.host_cells import CellCapacity, CellLimits, HostCells, host_cells
from rtagent.numa.requirements import CellRequirements, NumaRequirements
from rtagent.numa.search import CellSearch, Nearness
from rtagent.numa.thread_policies import POLICIES
from rtagent.pci.allocations import device_allocations
from rtagent.pci.assigned_resources import allocatable_inventories, resource_users
from rtagent.pci.pools import DeviceClass

#: A cell, and the size of its pages in KiB.
PagePool = tuple[int, int]


class Reach(Value, frozen=True, kw_only=True):
    """What some placement of a guest would use.

    :ivar cpus: host CPUs, with those that it would keep idle. :ivar pages: pools of pages.
    """

    cpus: frozenset[int] = frozenset()
    pages: frozenset[PagePool] = frozenset()

    def __or__(self, other: Reach) -> Reach:
        return Reach(cpus=self.cpus | other.cpus, pages=self.pages | other.pages)


def reach(
    required: NumaRequirements, host: HostCells, limits: CellLimits, devices: Nearness | None = None
) -> Reach:
    """Return what the placements of a guest with NUMA cells can use, by the rules of `fit`.

    The guest fits, and is attached to no networks with an affinity.

    `fit` chooses one placement. Here every host cell counts on which a placement puts a guest cell,
    and there every CPU and every page size by which the guest cell fits. So a CPU may count that no
    placement has, because the others that it would need there are taken first.

    :param devices: as for `fit`.
    """
    cells = host_cells(host)
    matrix = candidate_matrix(required.by_cell(), cells, limits)
    reached, by_id = Reach(), {cell.id: cell for cell in cells}
    for place, guest in enumerate(required.by_cell()):
        for cell in _cells_of(place, matrix, devices):
            reached |= _within(guest, by_id[cell], limits)
    return reached


def _cells_of(
    place: int, matrix: Sequence[CandidateRow], devices: Nearness | None
) -> Iterator[int]:
    """Yield the host cells that a guest cell has in some placement. Those of a search that gave up
    are among them, because it is not known that there is none.
    """
    rows = [list(row.candidates) for row in matrix]
    for cell in rows[place]:
        search = CellSearch([*rows[:place], [cell], *rows[place + 1 :]], devices)
        if search.placement() is not None or search.gave_up:
            yield cell


def _within(guest: CellRequirements, cell: CellCapacity, limits: CellLimits) -> Reach:
    """Return what a guest cell can use of a host cell that it fits."""
    policy = POLICIES[guest.cpu_thread_policy]
    # The emulator's CPU need not be beside others, but it never shares an isolated core.
    anywhere = guest.reserved and guest.cpu_thread_policy != ISOLATE
    cores = cell.cores if guest.pcpus + guest.reserved else ()
    cpus = (core.free for core in cores if anywhere or policy.eligible(core))
    sizes: Iterator[int | Reason] = iter([min(cell.pages)] if cell.pages else [])
    if guest.pagesize is not None:
        sizes = page_sizes(guest, cell, limits)
    return Reach(
        cpus=frozenset[int]().union(*cpus),
        pages=frozenset((cell.id, size) for size in sizes if not isinstance(size, Reason)),
    )


#: A flavor of the catalogue that fits at least once, and its room.
_Fitting = Sequence[tuple[CatalogueFlavor, Room]]


class Stranded(Value, frozen=True, kw_only=True):
    """A part of one resource that no flavor can use.

    :ivar resource: a resource class, ``2MiB pages``, or ``PCI vendor:product``.
    :ivar where: the host, a cell, or the address of the parent device.
    :ivar number: in ``unit``. :ivar free: what is free there, in the same unit.
    :ivar names: of the units, if they have any: CPUs, addresses, identifiers.
    :ivar cell: the host cell, or None. :ivar size_kb: of pages, in KiB.
    """

    resource: str
    where: str
    number: int
    free: int
    unit: str
    names: tuple[str, ...] = ()
    cell: int | None = None
    size_kb: int | None = None


def stranded(
    state: NodeState, counted: Iterable[tuple[CatalogueFlavor, Room]]
) -> tuple[Stranded, ...]:
    """Return everything that is stranded.

    :param state: as for `room`. :param counted: the catalogue with its room; without any flavor
        nothing is stranded.
    """
    flavors = list(counted)
    if not flavors:
        return ()
    fitting = [(flavor, counted) for flavor, counted in flavors if counted.number]
    return (
        *_amounts(state, fitting),
        *_of_cells(state, fitting),
        *_devices(state, fitting),
        *_resources(state, fitting),
    )


def _amounts(state: NodeState, fitting: _Fitting) -> Iterator[Stranded]:
    """Yield the vCPUs, the memory and the disk of the host that no flavor which fits needs."""
    free = capacity_of(state)
    required = [flavor.required.usage for flavor, _ in fitting if flavor.required]
    for resource, field, unit, number in (
        ("VCPU", "vcpus", "vCPUs", free.free_vcpus),
        ("MEMORY_MB", "memory_mb", "MB", free.free_memory_mb),
        ("DISK_GB", "disk_mb", "MB", free.free_disk_mb if free.disk_checked else 0),
    ):
        if number > 0 and not any(getattr(usage, field) for usage in required):
            where = state.node.hypervisor_hostname
            yield Stranded(resource=resource, where=where, number=number, free=number, unit=unit)


def _of_cells(state: NodeState, fitting: _Fitting) -> Iterator[Stranded]:
    """Yield the CPUs for pinning and the pages of each cell."""
    reached = Reach()
    # Memory of a guest without cells is in pages of the smallest size, of any cell.
    floating = any(not flavor.required.numa.cells for flavor, _ in fitting if flavor.required)
    for flavor, _ in fitting:
        reached |= _reach(state, flavor)
    for cell in host_cells(host_for_new_owners(state)):
        yield from _cpus(cell, reached)
        yield from _pages(cell, reached, floating)


def _reach(state: NodeState, flavor: CatalogueFlavor) -> Reach:
    required = flavor.required
    if required is None or not required.numa.cells:
        return Reach()
    owner_id = flavor.build.instance.uuid
    devices = device_fit(state, owner_id, required.devices, Reusable())
    return reach(required.numa, host_for_new_owners(state), required.cell_limits, devices)


def _cpus(cell: CellCapacity, reached: Reach) -> Iterator[Stranded]:
    free = frozenset(cpu for core in cell.cores for cpu in core.free)
    unused = free - reached.cpus
    if unused:
        yield Stranded(
            resource="PCPU",
            where=cell.where,
            number=len(unused),
            free=len(free),
            unit="CPUs",
            names=(format_cpu_spec(unused),),
            cell=cell.id,
        )


def _pages(cell: CellCapacity, reached: Reach, floating: bool) -> Iterator[Stranded]:
    for size, (_, free) in cell.pages.items():
        used = (cell.id, size) in reached.pages or (floating and size == min(cell.pages))
        if free > 0 and not used:
            yield Stranded(
                resource=f"{format_size(size)} pages",
                where=cell.where,
                number=free,
                free=free,
                unit="pages",
                cell=cell.id,
                size_kb=size,
            )


def _devices(state: NodeState, fitting: _Fitting) -> Iterator[Stranded]:
    """Yield the available devices, by class, of which no flavor gets one.

    A class counts as used if a count of room used one of it, or if a guest fits with these devices
    and with no others of which it gets one instead. A function counts with its other functions, and
    a device with what is made from it.
    """
    classes = device_allocations(state).available()
    used = _used(fitting, PCI) | _parents(state, _used(fitting, RESOURCE))
    requesting = [flavor for flavor, _ in fitting if flavor.required and flavor.required.devices]
    for devices in classes:
        related = _related(state, devices)
        if used.isdisjoint(related) and not any(
            _gets_one(state, flavor, devices, classes) for flavor in requesting
        ):
            device, addresses = devices.example.device, devices.addresses
            yield Stranded(
                resource=f"PCI {device.vendor_id}:{device.product_id}",
                where=state.node.hypervisor_hostname,
                number=len(addresses),
                free=len(addresses),
                unit="devices",
                names=addresses,
                cell=device.numa_node,
            )


def _gets_one(
    state: NodeState, flavor: CatalogueFlavor, devices: DeviceClass, classes: Sequence[DeviceClass]
) -> bool:
    """Return whether a guest of the flavor gets one of these devices if it gets as few others as
    possible.
    """
    required = flavor.required
    assert required is not None
    asked = [each for request in required.devices for each in request.alternatives]
    if not any(each.matches(devices.example) for each in asked):
        return False
    needed = sum(request.count for request in required.devices)
    for others in classes:
        if others is not devices:
            fewer = (_without(state, others.addresses[kept:]) for kept in range(needed + 1))
            state = next((each for each in fewer if _next(each, flavor).number), state)
    return not _names(_next(state, flavor), PCI).isdisjoint(devices.addresses)


def _resources(state: NodeState, fitting: _Fitting) -> Iterator[Stranded]:
    """Yield the free assigned resources, by provider, of which no flavor gets one."""
    users, used = resource_users(state), _used(fitting, RESOURCE)
    inventories = allocatable_inventories(state)
    for inventory in inventories:
        free = tuple(name for name in inventory.identifiers if name not in users)
        requesting = (
            flavor
            for flavor, _ in fitting
            if flavor.required and inventory.resource_class in flavor.required.assigned_resources
        )
        if free and used.isdisjoint(free):
            if any(_gets_unit(state, flavor, inventory, free) for flavor in requesting):
                continue
            yield Stranded(
                resource=inventory.resource_class,
                where=inventory.provider or state.node.hypervisor_hostname,
                number=len(free),
                free=len(free),
                unit="units",
                names=free,
            )


def _gets_unit(
    state: NodeState, flavor: CatalogueFlavor, inventory: ResourceInventory, free: Sequence[str]
) -> bool:
    """Return whether a guest of the flavor gets one of these units if it gets as few others as
    possible.
    """
    for other in state.resource_inventories:
        if (other.provider, other.resource_class) != (inventory.provider, inventory.resource_class):
            kept = tuple(each for each in state.resource_inventories if each is not other)
            without = replace(state, resource_inventories=kept)
            state = without if _next(without, flavor).number else state
    return not _names(_next(state, flavor), RESOURCE).isdisjoint(free)


def _next(state: NodeState, flavor: CatalogueFlavor) -> Room:
    """Return the room of a state for one more guest."""
    assert flavor.required is not None
    return room(state, flavor.build, flavor.required, most=1)


def _without(state: NodeState, addresses: Iterable[str]) -> NodeState:
    """Return the state with these devices in quarantine."""
    taken = [replace(state.devices[each], quarantine="not considered") for each in addresses]
    return replace(state, devices=state.devices.changed((), taken))


def _names(counted: Room, kind: str) -> frozenset[str]:
    """Return the names of the units of a kind that the builds used."""
    return frozenset(name for each, name in counted.units if each == kind)


def _used(fitting: _Fitting, kind: str) -> frozenset[str]:
    return frozenset[str]().union(*(_names(counted, kind) for _, counted in fitting))


def _parents(state: NodeState, identifiers: frozenset[str]) -> frozenset[str]:
    return frozenset(
        each.provider
        for each in state.resource_inventories
        if not identifiers.isdisjoint(each.identifiers)
    )


def _related(state: NodeState, devices: DeviceClass) -> frozenset[str]:
    """Return the devices of a class with their physical and virtual functions."""
    parents = {state.devices[each].device.parent_addr for each in devices.addresses}
    functions = (
        address
        for address, recorded in state.devices.items()
        if recorded.device.parent_addr in devices.addresses
    )
    return frozenset((*devices.addresses, *filter(None, parents), *functions))
