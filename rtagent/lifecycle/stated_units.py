"""Host CPUs, devices and assigned resources that a caller states."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from rtagent.model.assignment import AssignedResource, CellAssignment
from rtagent.model.claim import PCPU, RESOURCE, Unit
from rtagent.model.device import AssignedDevice, Device, PciDevice
from rtagent.model.guest import AdoptRequest
from rtagent.model.node_state import NodeState
from rtagent.pci.resource_providers import provider_of_device, provider_of_resource


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
