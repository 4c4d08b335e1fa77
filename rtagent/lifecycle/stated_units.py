"""Host CPUs, devices and assigned resources that a caller states, and those of them that other
owners hold: a unit has one owner (P6).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import UNSET
from msgspec.structs import asdict, replace

from rtagent.model.assignment import AssignedResource, CellAssignment
from rtagent.model.base import Value
from rtagent.model.claim import PCI, PCPU, RESOURCE, Claim, Unit
from rtagent.model.device import VF_TYPES, AssignedDevice, Device, PciDevice
from rtagent.model.guest import AdoptRequest
from rtagent.model.node_state import NodeState
from rtagent.pci.allocations import device_allocations, whole_device_allocations
from rtagent.pci.assigned_resources import resource_users
from rtagent.pci.device_users import DeviceAllocation
from rtagent.pci.placement_reporting import provider_of_device, provider_of_resource


def unrecorded(state: NodeState, devices: Sequence[AssignedDevice]) -> tuple[PciDevice, ...]:
    """Return a record of each device that has none, as of a device that has left the host.

    The next audit that lists devices finds it, if it is there.
    """
    return tuple(
        PciDevice(
            device=Device(
                address=each.address,
                vendor_id=each.vendor_id,
                product_id=each.product_id,
                dev_type=each.dev_type,
                parent_addr=each.parent_addr,
                numa_node=each.numa_node,
                vdpa_dev=each.vdpa_dev,
            ),
            present=False,
            listed=False,
        )
        for each in devices
        if each.address not in state.devices
    )


def completed_device(state: NodeState, stated: AssignedDevice) -> AssignedDevice:
    """Return a device with what its record has. :param state: with a record of the device."""
    recorded = state.devices[stated.address]
    device = recorded.device
    return replace(
        stated,
        dev_type=device.dev_type,
        numa_node=device.numa_node,
        parent_addr=device.parent_addr,
        managed=recorded.tags.managed,
        vdpa_dev=device.vdpa_dev,
        net_name=device.net_name or UNSET,
        provider=provider_of_device(state, stated.address),
    )


def completed_resource(state: NodeState, stated: AssignedResource) -> AssignedResource:
    """Return an assigned resource with what its inventory has. Without one it stays as stated."""
    name = stated.identifier
    parent, namespace = stated.parent_addr, stated.namespace
    for inventory in state.resource_inventories:
        if name in inventory.identifiers:
            parent = inventory.provider or None
            namespace = next((n for n in inventory.namespaces if n.name == name), namespace)
    provider = provider_of_resource(state, parent)
    return replace(stated, parent_addr=parent, namespace=namespace, provider=provider)


def without_units(request: AdoptRequest, held: Collection[Unit]) -> AdoptRequest:
    """Return the request without host CPUs and assigned resources that others hold.

    A vCPU whose host CPU is left out counts as a shared one. The memory stays.
    """
    cpus = frozenset(int(name) for kind, name in held if kind == PCPU)
    topology = request.numa_topology
    if topology is not None:
        cells = tuple(_without_cpus(cell, cpus) for cell in topology.cells)
        topology = replace(topology, cells=cells)
    resources = (each for each in request.resources if (RESOURCE, each.identifier) not in held)
    return replace(request, numa_topology=topology, resources=tuple(resources))


def _without_cpus(cell: CellAssignment, cpus: frozenset[int]) -> CellAssignment:
    pinning = {vcpu: cpu for vcpu, cpu in cell.cpu_pinning.items() if cpu not in cpus}
    return replace(
        cell,
        cpuset=cell.cpuset | (cell.pcpuset - pinning.keys()),
        cpu_pinning=pinning,
        cpuset_reserved=cell.cpuset_reserved - cpus,
        cpuset_kept=cell.cpuset_kept - cpus,
    )


_NOUNS = {PCPU: "host CPU", PCI: "PCI device", RESOURCE: "resource"}


class HeldUnit(Value, frozen=True, kw_only=True):
    """A unit that another owner holds.

    :ivar owner_id: an instance's uuid, which is also its domain's.
    :ivar claim_uuid: the owner's claim that has it; None: only its domain uses it.
    """

    kind: str
    name: str
    owner_id: str
    claim_uuid: str | None

    @property
    def key(self) -> tuple[Unit, str]:
        """The unit, and its owner."""
        return (self.kind, self.name), self.owner_id

    def __str__(self) -> str:
        by = f"claim {self.claim_uuid}" if self.claim_uuid else "the domain"
        noun = _NOUNS.get(self.kind, self.kind)
        return f"{noun} {self.name} is held by {by} of instance {self.owner_id}"

    def as_dict(self) -> dict[str, str | None]:
        """Return the unit as a document, for the error."""
        return {**asdict(self), "message": str(self)}


def held_by_others(state: NodeState, claim: Claim) -> tuple[HeldUnit, ...]:
    """Return the units of a new claim that others hold: their claims, or, devices and resources,
    their running domains. Several domains can run on one host CPU.

    A physical function and its virtual functions exclude each other, also if one owner holds both.

    :param state: without the claim, with a record of each of its devices.
    """
    taken = claim.numa_topology.taken if claim.numa_topology else frozenset[int]()
    cpus = ((PCPU, str(cpu)) for cpu in taken)
    found = {each.key: each for each in held_by_claims(state, claim.owner_id, cpus)}
    for kind, name, owner in (*_devices(state, claim), *_resources(state, claim)):
        unit = _held(state, (kind, name), owner)
        found.setdefault(unit.key, unit)
    return tuple(found.values())


def held_by_claims(state: NodeState, owner_id: str, units: Iterable[Unit]) -> tuple[HeldUnit, ...]:
    """Return those of the units that claims of others hold. :param owner_id: not of this one."""
    owners = {unit: state.units.get(unit) for unit in sorted(units, key=_in_order)}
    return tuple(
        _held(state, unit, owner)
        for unit, owner in owners.items()
        if owner is not None and owner != owner_id
    )


def _in_order(unit: Unit) -> tuple[str, int, str]:
    kind, name = unit
    return kind, len(name), name


def _held(state: NodeState, unit: Unit, owner_id: str) -> HeldUnit:
    kind, name = unit
    claims = (each.uuid for each in state.claims_of(owner_id) if unit in each.units)
    return HeldUnit(kind=kind, name=name, owner_id=owner_id, claim_uuid=next(claims, None))


def _devices(state: NodeState, claim: Claim) -> Iterator[tuple[str, str, str]]:
    allocations = device_allocations(state)
    for device in claim.pci:
        for each in allocations.allocations_of(device.address):
            if each.owner_id != claim.owner_id:
                yield _unit(each)
        yield from map(_unit, allocations.of_functions(device.address))
        parent = device.parent_addr if device.dev_type in VF_TYPES else None
        owner = state.units.get((PCI, parent or ""))
        if parent is not None and owner is not None:
            yield PCI, parent, owner


def _resources(state: NodeState, claim: Claim) -> Iterator[tuple[str, str, str]]:
    users = resource_users(state) if claim.resources else {}
    parents = {unit.parent_addr for unit in claim.resources if unit.parent_addr}
    for unit in claim.resources:
        owner = users.get(unit.identifier)
        if owner not in (None, claim.owner_id):
            yield RESOURCE, unit.identifier, owner
    # Not the users of other mediated devices of the same parent.
    for each in whole_device_allocations(state) if parents else ():
        if each.address in parents and each.owner_id != claim.owner_id:
            yield _unit(each)


def _unit(allocation: DeviceAllocation) -> tuple[str, str, str]:
    return PCI, allocation.address, allocation.owner_id
