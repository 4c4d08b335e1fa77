"""LP1633120, LP2115905, LP2115729, LP1899541: devices in use that were forgotten.

A typing error in the whitelist deleted the rows of devices that guests had: the guests could not be
rebooted, and after the error was mended the devices were given to others. A guest with such a
device could not be deleted. Of many that left at once every second was not removed. And archiving
the rows of deleted instances took devices with them.

On the tracker, over restarts: who holds a device keeps it until he lets go of it, whatever the
option says; it is nobody else's meanwhile, and goes, or is offered again, when it is free.
"""

from __future__ import annotations

import pytest

from rtagent.audit import Auditor
from rtagent.db.memory import MemoryStore
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.pci.holds import holdings
from rtagent.tracker import ResourceTracker
from rtagent.views import absent
from rtagent.virt.fake import FakeHypervisor
from tests.builders import NODE, TOPOLOGY, ManualClock, call, host, request
from tests.device_states import policy
from tests.pci_hosts import GPU_0, GPU_1, SPECS, gpu, nic
from tests.unit.test_kernel import enroll

WRONG = SPECS[1:]  # nothing matches the GPUs


class Site:
    """An agent that is started again and again, with this or that option."""

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
        return self.tracker.instance_claim(asked, call(operation_id=asked.claim_uuid))

    def release(self, claim):
        self.tracker.release_claim(claim.uuid, call("release_claim"))

    @property
    def state(self):
        return self.tracker.snapshot()


@pytest.fixture
def site():
    return Site()


def test_a_typing_error_takes_nothing_from_those_who_have_it(site):
    held = site.claim("gpu:1")
    site.start(WRONG)
    assert site.state.claims[held.uuid].pci == held.pci
    line = holdings(site.state).state(GPU_0)
    assert (line.owner_id, line.reason) == (held.owner_id, "no device_spec offers it any more")
    assert [each.resource for each in absent(site.state)] == [f"PCI device {GPU_0}"]

    site.start(SPECS)
    assert not absent(site.state)
    with pytest.raises(ComputeResourcesUnavailable):
        site.claim("gpu:2")
    assert [device.address for device in site.claim("gpu:1").pci] == [GPU_1]


def test_a_guest_with_such_a_device_is_deleted_like_any_other(site):
    held = site.claim("gpu:1")
    site.start(WRONG)
    site.release(held)
    with pytest.raises(ComputeResourcesUnavailable):
        site.claim("gpu:1")
    site.audit()
    assert GPU_0 not in site.state.devices
    site.start(SPECS)
    assert len(site.claim("gpu:2").pci) == 2


def test_all_of_many_that_leave_at_once_are_gone(site):
    site.world.unplug(*list(site.world.devices))
    site.audit()
    assert not site.state.devices
    assert not site.store.load(NODE.uuid).devices


def test_a_device_outlives_the_records_of_whoever_had_it(site):
    held = site.claim("gpu:1")
    site.release(held)
    site.clock.advance(10**6)
    assert site.store.purge(NODE.uuid, site.clock.now()) > 0
    site.start(SPECS)
    assert len(site.claim("gpu:2").pci) == 2
