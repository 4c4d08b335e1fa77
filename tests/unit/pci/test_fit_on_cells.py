"""The fit of guests with NUMA cells and devices."""

from __future__ import annotations

from rtagent.model.device import PciDevices
from rtagent.model.policy import NumaPolicy
from rtagent.model.request import Flavor
from rtagent.model.usage import NUMA_NOTHING
from rtagent.numa.fit import Fitted, fit
from rtagent.numa.host_cells import CellLimits, Host
from rtagent.numa.requirements import numa_requirements
from rtagent.numa.search import Devices
from rtagent.pci.allocations import DeviceAllocations
from rtagent.pci.fit import DeviceFit
from rtagent.pci.requests import device_requests
from tests.support.numa_hosts import cell, topology
from tests.support.pci_hosts import ALIASES, GPU_0, GPU_1, flavor, gpu, record, used_by

THREE = topology(cell(0), cell(1), cell(2, socket=1))
GPUS = record([gpu(GPU_0, 0), gpu(GPU_1, 1)])


def fit_guest(aliases, allocations=(), policy="required", **extra_specs):
    specs = flavor(aliases, **{"hw:numa_nodes": "1", **extra_specs}).extra_specs
    guest = Flavor(vcpus=2, memory_mb=64, extra_specs=specs)
    devices: Devices = DeviceFit(
        device_requests(guest, (), ALIASES, policy),
        DeviceAllocations(PciDevices(GPUS), allocations),
        "me",
        where="cn1",
        sockets={each.id: each.sockets for each in THREE.cells},
    )
    host = Host(
        name="cn1",
        topology=THREE,
        usage=NUMA_NOTHING,
        policy=NumaPolicy(cpu_dedicated_set=THREE.cpus),
    )
    required = numa_requirements(guest.vcpus, guest.memory_mb, guest.extra_specs, {})
    return fit(required, host, CellLimits(), devices), devices


def cells(result):
    assert isinstance(result, Fitted), result
    return [each.id for each in result.assignment.cells]


def test_guest_is_placed_on_the_cell_of_its_device():
    result, devices = fit_guest("gpu:1", used_by("a", GPU_0), **{"hw:cpu_policy": "dedicated"})
    assert cells(result) == [1]
    assert [d.address for d in devices.fit(frozenset({1})).devices] == [GPU_1]


def test_guest_without_devices_avoids_cells_with_devices():
    result, _ = fit_guest("", **{"hw:cpu_policy": "dedicated"})
    assert cells(result) == [2]


def test_devices_on_two_cells_need_a_guest_on_both():
    one, _ = fit_guest("gpu:2", **{"hw:cpu_policy": "dedicated"})
    assert [str(reason) for reason in one.reasons] == [
        "PCI gpu: 2 devices requested at cn1 cells 0, 1 available"
    ]
    two, _ = fit_guest("gpu:2", **{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"})
    assert sorted(cells(two)) == [0, 1]
