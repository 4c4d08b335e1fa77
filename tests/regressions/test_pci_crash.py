"""LP1969496, LP1567549, LP1565785: a crash left states that nobody corrected.

A host failed between two writes: the physical function was marked available, its virtual functions
unavailable, for ever. The scheduler sent guests; each claim failed on an empty pool. And a physical
function stayed unavailable after its last virtual one had been freed.

On the tracker: whatever was being done when the process ended, the next one derives all states from
the claims that it finds, so that what it pools can be claimed.
"""

from __future__ import annotations

import pytest

from rtagent.compute_node import pci_device_pools
from rtagent.db.failing import FailingStore
from rtagent.db.memory import MemoryStore
from rtagent.errors import CommitUnknown, StoreUnavailable
from rtagent.pci.holds import holdings
from rtagent.pci.states import AVAILABLE
from rtagent.reconcile.step import Step
from rtagent.tracker import ResourceTracker
from tests.builders import TOPOLOGY, ManualClock, call, host, request
from tests.device_states import policy
from tests.pci_hosts import PF_0, nic, record, vf
from tests.unit.test_kernel import enroll

ALIASES = {"1583": "pf", "154c": "vf"}


def start(store):
    its = host(pci=policy(), cpu_allocation_ratio=8).policy
    tracker = ResourceTracker(store, ManualClock(), enroll(store, its))
    with tracker.observing() as base:
        devices = [Step(key=a, device=each) for a, each in record(nic(vfs=2)).items()]
        tracker.apply([Step(key="host", topology=TOPOLOGY), *devices], base)
    return tracker


def claim(tracker, aliases):
    asked = request(extra_specs={"pci_passthrough:alias": aliases})
    return tracker.instance_claim(asked, call(operation_id=asked.claim_uuid))


def release(tracker, made):
    tracker.release_claim(made.uuid, call("release_claim"))


def state_of(tracker, address):
    return holdings(tracker.snapshot()).state(address).state


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("aliases", ["pf:1", "vf:1", "vf:2"])
@pytest.mark.parametrize("ends", [True, False])
def test_what_is_pooled_after_a_crash_can_be_claimed(landed, aliases, ends):
    """The connection is lost in the commit of a claim, or of its end; and then the process."""
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


def test_the_physical_function_is_back_with_its_last_virtual_one_and_not_before():
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
