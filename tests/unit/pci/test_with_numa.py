"""The fit of NUMA cells with the devices of a guest."""

from __future__ import annotations

from rtagent.model.flavor import Flavor, Image
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.numa_usage import NUMA_NOTHING
from rtagent.model.pci_devices import PciDevices
from rtagent.numa.constraints import constraints
from rtagent.numa.devices import Devices
from rtagent.numa.fit import Fitted, fit
from rtagent.numa.host import Host
from rtagent.numa.limits import CellLimits
from rtagent.pci.fit import DeviceFit
from rtagent.pci.request import device_requests
from rtagent.pci.states import Holdings
from tests.numa_hosts import cell, topology
from tests.pci_hosts import ALIASES, GPU_0, GPU_1, flavor, gpu, held, record

THREE = topology(cell(0), cell(1), cell(2, socket=1))
GPUS = record([gpu(GPU_0, 0), gpu(GPU_1, 1)])


def placed(aliases, holds=(), policy="required", **specs):
    guest = flavor(aliases, **{"hw:numa_nodes": "1", **specs})
    wanted = Flavor(vcpus=2, memory_mb=64, extra_specs=guest.extra_specs)
    requests = device_requests(wanted, (), ALIASES, policy)
    sockets = {each.id: each.sockets for each in THREE.cells}
    devices: Devices = DeviceFit(
        requests, Holdings(PciDevices(GPUS), holds), "me", where="cn1", sockets=sockets
    )
    host = Host(
        name="cn1",
        topology=THREE,
        usage=NUMA_NOTHING,
        policy=NumaPolicy(cpu_dedicated_set=THREE.cpus),
    )
    asked = constraints(wanted, Image())
    return fit(asked, host, CellLimits(), devices), devices


def cells(answer):
    assert isinstance(answer, Fitted), answer
    return [each.id for each in answer.assignment.cells]


def test_a_guest_goes_where_its_device_is():
    pins = {"hw:cpu_policy": "dedicated"}
    answer, devices = placed("gpu:1", held("a", GPU_0), **pins)
    assert cells(answer) == [1]
    assert [d.address for d in devices.fit(frozenset({1})).devices] == [GPU_1]


def test_a_guest_without_devices_stays_off_their_cells():
    answer, _ = placed("", **{"hw:cpu_policy": "dedicated"})
    assert cells(answer) == [2]


def test_two_devices_need_two_cells():
    one, _ = placed("gpu:2", **{"hw:cpu_policy": "dedicated"})
    assert [str(reason) for reason in one.reasons] == [
        "PCI gpu: 2 devices requested at cn1 cells 0, 1 available"
    ]
    two, _ = placed("gpu:2", **{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"})
    assert sorted(cells(two)) == [0, 1]
