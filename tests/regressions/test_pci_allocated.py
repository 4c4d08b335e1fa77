"""LP1633120, LP2115905, LP2115729, LP1899541: records of devices in use were deleted.

A typing error in the whitelist deleted the records of devices that guests had: the guests could not
be rebooted, and after the error was corrected the devices were assigned to others. A guest with
such a device could not be deleted. When many devices were unplugged at once, every second record
stayed. Archiving the rows of deleted instances removed devices, too.

Here a claim keeps its devices until it ends, over restarts and whatever the option is. Meanwhile
they are unavailable to others. Once free, they are removed or available again.
"""

import pytest

from rtagent.audit import Auditor
from rtagent.claims import instance_claim, release_claim
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.model.stored import Retention
from rtagent.pci.allocations import device_allocations
from rtagent.reconcile.drift import absent
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryStore
from rtagent.tracker import ResourceTracker
from tests.support.device_states import policy
from tests.support.hosts import NODE, TOPOLOGY, ManualClock, call, host, request
from tests.support.pci_hosts import GPU_0, GPU_1, SPECS, gpu, nic
from tests.support.trackers import enroll

WRONG = SPECS[1:]  # no specification matches the GPUs


class Site:
    """An agent that can be restarted with another device_spec."""

    def __init__(self):
        self.store, self.clock = MemoryStore(), ManualClock()
        self.world = FakeHypervisor(TOPOLOGY)
        self.world.plug(gpu(GPU_0), gpu(GPU_1), *nic(vfs=6))
        self.start(SPECS)

    def start(self, specs):
        its = host(pci=policy(specs)).policy
        self.tracker = ResourceTracker(self.store, self.clock, enroll(self.store, its))
        self.audit()

    def audit(self):
        Auditor(self.tracker, self.world, self.clock).run("test")

    def claim(self, aliases):
        asked = request(extra_specs={"pci_passthrough:alias": aliases})
        return self.tracker.create(instance_claim, call(), asked)

    def release(self, claim):
        self.tracker.execute(release_claim, call("release_claim"), claim.uuid)

    @property
    def state(self):
        return self.tracker.snapshot()


@pytest.fixture
def site():
    return Site()


def test_wrong_device_spec_takes_no_claimed_device(site):
    held = site.claim("gpu:1")
    site.start(WRONG)
    assert site.state.claims[held.uuid].pci == held.pci
    line = device_allocations(site.state).state(GPU_0)
    assert (line.owner_id, line.reason) == (held.owner_id, "no device_spec matches it any more")
    assert [each.resource for each in absent(site.state)] == [f"PCI device {GPU_0}"]

    site.start(SPECS)
    assert not absent(site.state)
    with pytest.raises(ComputeResourcesUnavailable):
        site.claim("gpu:2")
    assert [device.address for device in site.claim("gpu:1").pci] == [GPU_1]


def test_guest_whose_device_left_device_spec_can_be_deleted(site):
    held = site.claim("gpu:1")
    site.start(WRONG)
    site.release(held)
    with pytest.raises(ComputeResourcesUnavailable):
        site.claim("gpu:1")
    site.audit()
    assert GPU_0 not in site.state.devices
    site.start(SPECS)
    assert len(site.claim("gpu:2").pci) == 2


def test_all_of_many_unplugged_devices_are_removed(site):
    site.world.unplug(*list(site.world.devices))
    site.audit()
    assert not site.state.devices
    assert not site.store.load(NODE.uuid).devices


def test_purge_of_old_claims_keeps_their_devices(site):
    site.release(site.claim("gpu:1"))
    assert site.store.purge(NODE.uuid, site.state.revision, Retention()) > 0
    site.start(SPECS)
    assert len(site.claim("gpu:2").pci) == 2
