"""Two trackers with the same hardware, in one process and on one database.

In Nova several hosts of one process shared one tracker of devices: a device that was allocated on
one host was missing on the other, where a device has the same address.
"""

import pytest
from msgspec.structs import replace

from rtagent.claims import instance_claim
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.model.node_state import HOST
from rtagent.reconcile.steps import AuditStep
from rtagent.testing.memory_store import Disk, MemoryStore
from rtagent.tracker import ResourceTracker
from tests.support.device_states import policy
from tests.support.hosts import NODE, TOPOLOGY, ManualClock, call, host, request, uid
from tests.support.pci_hosts import GPU_0, GPU_1, two_gpus_and_a_nic
from tests.support.trackers import enroll


def start(disk, node):
    store = MemoryStore(disk)
    state = enroll(store, host(pci=policy()).policy, node)
    tracker = ResourceTracker(store, ManualClock(), state)
    with tracker.observing() as base:
        devices = [AuditStep(key=a, device=each) for a, each in two_gpus_and_a_nic().items()]
        tracker.apply([AuditStep(key=HOST, topology=TOPOLOGY), *devices], base)
    return tracker


def claim(tracker, aliases):
    asked = request(extra_specs={"pci_passthrough:alias": aliases})
    made = tracker.create(instance_claim, call(), asked)
    return [device.address for device in made.pci]


def test_devices_with_the_same_addresses_on_two_hosts_are_independent():
    disk = Disk()
    one = start(disk, NODE)
    other = start(disk, replace(NODE, uuid=uid(77), host="cn2", hypervisor_hostname="cn2.example"))
    assert claim(one, "gpu:1") == [GPU_0]
    assert claim(other, "gpu:2") == [GPU_0, GPU_1]
    assert claim(one, "gpu:1") == [GPU_1]
    for each in (one, other):
        with pytest.raises(ComputeResourcesUnavailable):
            claim(each, "gpu:1")
