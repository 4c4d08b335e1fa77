"""A node that drains creates no claims, and all else goes on."""

from datetime import timedelta

import pytest

from rtagent.claims import (
    abort_instance_claim,
    activate_claim,
    drain,
    instance_claim,
    renew_claim,
    undrain,
)
from rtagent.errors import NodeDraining
from rtagent.model.claim import ACTIVE
from rtagent.testing.memory_store import Disk, MemoryStore
from tests.support.hosts import NODE, NOON, call, request
from tests.support.trackers import claim, release, stored_state, tracker_on

DEADLINE = NOON + timedelta(hours=2)


def test_draining_node_refuses_new_claims_and_names_reason_deadline_and_remedy():
    tracker = tracker_on(MemoryStore())
    tracker.execute(drain, call("drain_node"), "new disks", DEADLINE)
    with pytest.raises(NodeDraining) as refused:
        claim(tracker)
    assert not refused.value.retriable
    assert refused.value.kwargs["node"] == NODE.hypervisor_hostname
    why = "the node is being drained (until 2026-01-02T14:00:00Z): new disks"
    remedy = "rtagent node undrain ends that"
    assert refused.value.message == f"cn1.example gets no new claims: {why}; {remedy}"
    with pytest.raises(NodeDraining):
        tracker.test_claim(instance_claim, request())
    assert not tracker.snapshot().claims


def test_claims_of_a_draining_node_are_activated_renewed_and_released():
    tracker = tracker_on(MemoryStore())
    first, second = claim(tracker), claim(tracker)
    tracker.execute(drain, call("drain_node"), "", None)
    tracker.change(renew_claim, call("renew_claim"), first.uuid)
    assert tracker.change(activate_claim, call("activate_claim"), first.uuid).state == ACTIVE
    release(tracker, first.uuid)
    tracker.execute(abort_instance_claim, call("abort_instance_claim"), second.uuid)
    assert not tracker.snapshot().claims


def test_drain_outlasts_the_process_and_ends_with_undrain():
    disk = Disk()
    tracker_on(MemoryStore(disk)).execute(drain, call("drain_node"), "new disks", DEADLINE)
    restarted = tracker_on(MemoryStore(disk))
    drains = restarted.snapshot().drain
    assert drains is not None
    assert (drains.reason, drains.deadline) == ("new disks", DEADLINE)
    with pytest.raises(NodeDraining):
        claim(restarted)
    restarted.execute(undrain, call("undrain_node"))
    assert claim(restarted).uuid in restarted.snapshot().claims
    assert stored_state(MemoryStore(disk)).drain is None
