"""LP1969496, LP1567549, LP1565785: a crash left device states that were never corrected.

A host failed between two writes: the physical function stayed available and its virtual functions
unavailable. The scheduler sent guests, and each claim failed on an empty pool. A physical function
stayed unavailable after its last virtual function had been freed.

Here a process derives all device states from the claims that it loads, whatever the process before
was doing when it ended. So pools count devices that can be claimed.
"""

import pytest

from rtagent.claims import instance_claim, release_claim
from rtagent.errors import CommitUnknown, StoreUnavailable
from rtagent.pci.allocations import device_allocations
from rtagent.pci.device_users import AVAILABLE
from rtagent.reconcile.steps import AuditStep
from rtagent.state.compute_node import pci_device_pools
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.memory_store import MemoryStore
from rtagent.tracker import ResourceTracker
from tests.support.device_states import policy
from tests.support.hosts import TOPOLOGY, ManualClock, call, host, request
from tests.support.pci_hosts import PF_0, nic, record, vf
from tests.support.trackers import enroll

ALIASES = {"1583": "pf", "154c": "vf"}


def start(store):
    its = host(pci=policy(), cpu_allocation_ratio=8).policy
    tracker = ResourceTracker(store, ManualClock(), enroll(store, its))
    with tracker.observing() as base:
        devices = [AuditStep(key=a, device=each) for a, each in record(nic(vfs=2)).items()]
        tracker.apply([AuditStep(key="host", topology=TOPOLOGY), *devices], base)
    return tracker


def claim(tracker, aliases):
    asked = request(extra_specs={"pci_passthrough:alias": aliases})
    return tracker.create(instance_claim, call(), asked)


def release(tracker, made):
    tracker.execute(release_claim, call("release_claim"), made.uuid)


def state_of(tracker, address):
    return device_allocations(tracker.snapshot()).state(address).state


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("aliases", ["pf:1", "vf:1", "vf:2"])
@pytest.mark.parametrize("ends", [True, False])
def test_devices_in_pools_after_a_crash_can_be_claimed(landed, aliases, ends):
    """The connection is lost while a claim, or its end, is committed; then the process ends."""
    store = FailingStore(MemoryStore())
    tracker = start(store)
    made = claim(tracker, aliases) if ends else None
    store.fail(CommitUnknown, after=landed)
    try:
        release(tracker, made) if made else claim(tracker, aliases)
    except StoreUnavailable:
        assert not landed
    after = start(store)
    assert bool(after.snapshot().claims) is (ends is not landed)
    for pool in pci_device_pools(after.snapshot()):
        given = claim(after, f"{ALIASES[pool['product_id']]}:{pool['count']}")
        assert len(given.pci) == pool["count"]
        release(after, given)


def test_physical_function_is_available_once_its_last_virtual_function_is_free():
    store = MemoryStore()
    tracker = start(store)
    made = [claim(tracker, "vf:1"), claim(tracker, "vf:1")]
    for each, left in ((made[0], False), (made[1], True)):
        assert state_of(tracker, PF_0) != AVAILABLE
        release(tracker, each)
        assert (state_of(tracker, PF_0) == AVAILABLE) is left
        tracker = start(store)
        assert (state_of(tracker, PF_0) == AVAILABLE) is left
    whole = claim(tracker, "pf:1")
    assert {state_of(tracker, vf(n)) for n in (0, 1)} == {"unclaimable"}
    release(tracker, whole)
    assert {state_of(tracker, vf(n)) for n in (0, 1)} == {AVAILABLE}
