"""One process, several hosts, one tracker of devices: what one host gave away was missing at the
other, where a device has the same address.

Two trackers on one database and in one process, with the same hardware.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rtagent.db.memory import Disk, MemoryStore
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.kernel import restored
from rtagent.model.host import HOST
from rtagent.model.node import NodeRecord
from rtagent.reconcile.step import Step
from rtagent.tracker import ResourceTracker
from tests.builders import NODE, TOPOLOGY, ManualClock, call, host, request, uid
from tests.device_states import policy
from tests.pci_hosts import GPU_0, GPU_1, two_gpus_and_a_nic


def start(disk, node):
    store = MemoryStore(disk)
    new = NodeRecord(node=node, epoch=1, revision=0)
    stored = store.enroll(node.uuid, node.hypervisor_hostname, lambda _: new)
    tracker = ResourceTracker(store, ManualClock(), restored(stored, host(pci=policy()).policy))
    with tracker.observing() as base:
        devices = [Step(key=a, device=each) for a, each in two_gpus_and_a_nic().items()]
        tracker.apply([Step(key=HOST, topology=TOPOLOGY), *devices], base)
    return tracker


def claim(tracker, aliases):
    asked = request(extra_specs={"pci_passthrough:alias": aliases})
    made = tracker.instance_claim(asked, call(operation_id=asked.claim_uuid))
    return [device.address for device in made.pci]


def test_hosts_whose_devices_have_the_same_addresses_know_nothing_of_each_other():
    disk = Disk()
    one = start(disk, NODE)
    other = start(disk, replace(NODE, uuid=uid(77), host="cn2", hypervisor_hostname="cn2.example"))
    assert claim(one, "gpu:1") == [GPU_0]
    assert claim(other, "gpu:2") == [GPU_0, GPU_1]
    assert claim(one, "gpu:1") == [GPU_1]
    for each in (one, other):
        with pytest.raises(ComputeResourcesUnavailable):
            claim(each, "gpu:1")
