"""The resources of a node in lines of the log, with the words of Nova's resource tracker. Pure."""

from collections import Counter
from collections.abc import Mapping

from rtagent.model.node_state import NodeState
from rtagent.model.topology import Topology
from rtagent.model.units import MB_IN_GB
from rtagent.pci.allocations import device_allocations
from rtagent.pci.device_users import AVAILABLE
from rtagent.state.compute_node import described, quantities

#: The most pools of devices in a line.
POOLS = 20


def resource_views(state: NodeState) -> Mapping[str, str]:
    """Return a line for each view, by its title: what the hypervisor has, what is free on the node,
    and the node's record as a whole. None before the host was observed.
    """
    if state.topology is None:
        return {}
    name = f"name={state.node.hypervisor_hostname}"
    record = {**quantities(state), **described(state.topology, state.policy)}
    free_vcpus = record["vcpus"] - record["vcpus_used"]
    free_devices, pools = _devices(state)
    return {
        "Hypervisor resource view": f"{name} {_hardware(state.topology)}"
        f" pci_devices={len(state.devices)}",
        "Hypervisor/Node resource view": f"{name} free_ram={record['free_ram_mb']}MB"
        f" free_disk={record['free_disk_gb']}GB free_vcpus={free_vcpus}"
        f" pci_devices={free_devices}",
        "Final resource view": f"{name} phys_ram={record['memory_mb']}MB"
        f" used_ram={record['memory_mb_used']}MB phys_disk={record['local_gb']}GB"
        f" used_disk={record['local_gb_used']}GB total_vcpus={record['vcpus']}"
        f" used_vcpus={record['vcpus_used']} pci_stats=[{pools}]"
        f" running_vms={record['running_vms']}",
    }


def _hardware(topology: Topology) -> str:
    return (
        f"phys_ram={topology.memory_mb}MB phys_disk={topology.disk_mb // MB_IN_GB}GB"
        f" cpus={len(topology.cpus)} numa_cells={len(topology.cells)}"
    )


def _devices(state: NodeState) -> tuple[int, str]:
    """Return how many devices are available, and ``VENDOR:PRODUCT=AVAILABLE/ALL`` of each pool."""
    allocations = device_allocations(state)
    every, available = Counter[str](), Counter[str]()
    for address, recorded in state.devices.items():
        pool = f"{recorded.device.vendor_id}:{recorded.device.product_id}"
        every[pool] += 1
        available[pool] += allocations.state(address).state == AVAILABLE
    shown = [f"{pool}={available[pool]}/{every[pool]}" for pool in sorted(every)]
    more = [f"({len(shown) - POOLS} more)"] if len(shown) > POOLS else []
    return available.total(), ", ".join([*shown[:POOLS], *more])
