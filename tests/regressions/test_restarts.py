"""A restart loses nothing, and corrects nothing.

Everything that a decision depends on is written in the transaction that changes it: a process has
in memory what the next process will read.
"""

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from rtagent import errors
from rtagent.claims import build_failed, release_claim
from rtagent.lifecycle.attach import allocate_pci_devices, claim_pci_devices, quarantine
from rtagent.model.request import AttachRequest, Flavor, Instance, PciRequest
from rtagent.pci.allocations import device_allocations
from rtagent.pci.specs import parse_specs
from rtagent.reconcile.drift import absent, suspects
from rtagent.state.compute_node import compute_node
from rtagent.testing.memory_store import MemoryServiceRegistry
from tests.support.agents import GUEST, LARGE, OTHER, POLICY, SMALL, Agent, facts, with_devices
from tests.support.device_states import ONE_TIME, policy
from tests.support.pci_hosts import GPU_0, GPU_1, VF_IDS

GPU_2 = "0000:89:00.0"
VF_ONLY = parse_specs([json.dumps(VF_IDS)])


def attached(here, alias="gpu"):
    """Attach a device to the guest."""
    request = AttachRequest(
        instance=Instance(uuid=GUEST, flavor=SMALL),
        pci_requests=(PciRequest(count=1, alias_name=alias),),
    )
    claim = here.tracker.create(claim_pci_devices, here.next_call("claim_pci_devices"), request)
    return here.tracker.change(
        allocate_pci_devices, here.next_call("allocate_pci_devices"), GUEST, claim.uuid
    )


# -- several claims of one instance ---------------------------------------------------------------


def test_second_claim_of_an_instance_does_not_replace_the_first():
    """In Nova the devices of an instance were one entry: a second claim replaced the devices of the
    first, which were then neither free nor used until they were cleaned up."""
    here = Agent(gpus=[GPU_0, GPU_1, GPU_2])
    here.run(with_devices("gpu:1"))
    attached(here)
    move = facts()
    here.claim_move(move, with_devices("gpu:3"))
    for _ in range(2):
        assert here.allocated() == dict.fromkeys([GPU_0, GPU_1, GPU_2], GUEST)
        here.start()
    with pytest.raises(errors.ClaimConflict):
        here.build(with_devices("gpu:1"))
    here.move("drop_move_claim_at_dest", move)
    assert here.allocated() == dict.fromkeys([GPU_0, GPU_1], GUEST)
    here.world.destroy(GUEST)
    here.audit()
    here.update("deleted")
    assert here.allocated() == {}
    assert len(here.run(with_devices("gpu:3"), OTHER).pci) == 3


# -- disk -----------------------------------------------------------------------------------------


def test_disk_usage_returns_exactly_to_its_former_value():
    """Swap is in MB, and Nova counted disk as a whole number of GB: adding and subtracting swap cut
    off the fraction each time. Five times 512 MB more and less made 5 GB of 10."""
    here = Agent()
    here.run(Flavor(vcpus=1, memory_mb=64, root_gb=10))
    before = compute_node(here.state)
    for _ in range(5):
        swapping = here.build(Flavor(vcpus=1, memory_mb=64, swap=512), OTHER)
        assert here.state.usage.disk_mb == 10 * 1024 + 512
        here.release(swapping)
        move = facts()
        here.claim_move(move, Flavor(vcpus=1, memory_mb=64, root_gb=10, swap=512))
        here.move("drop_move_claim_at_dest", move)
    after = compute_node(here.state)
    assert (here.state.usage.disk_mb, after["local_gb_used"]) == (10 * 1024, 10)
    assert after["free_disk_gb"] == before["free_disk_gb"]
    assert here.stored.usage == here.state.usage


# -- facts that only memory had ---------------------------------------------------------------


def test_next_process_has_all_facts_of_the_process_before():
    """The number of failed builds, a device that is to be removed once it is free, a suspect claim:
    Nova lost each of them with the process."""
    here = Agent(gpus=[GPU_0, GPU_1, GPU_2])
    guest = here.run(with_devices("gpu:1"))
    lost = here.run(LARGE, OTHER)
    here.world.destroy(OTHER)
    here.audit()
    for _ in range(3):
        here.tracker.execute(build_failed, here.next_call("build_failed"))
    here.tracker.execute(quarantine, here.next_call("set_quarantine"), GPU_1, "faulty")
    here.world.unplug(GPU_0)
    here.audit()
    for _ in range(2):
        assert compute_node(here.state)["stats"]["failed_builds"] == 3
        assert [claim.uuid for claim in suspects(here.state)] == [lost.uuid]
        assert here.state.devices[GPU_1].quarantine == "faulty"
        assert [line.claim_uuid for line in absent(here.state)] == [guest.uuid]
        here.start()
    here.release(guest)
    here.world.destroy(GUEST)
    here.audit()
    assert sorted(here.state.devices) == [GPU_1, GPU_2]


def test_device_that_left_device_spec_is_removed_once_free_after_any_restart():
    """In Nova the mark for its removal was in memory only."""
    here = Agent(gpus=[GPU_0, GPU_1])
    guest = here.run(with_devices("gpu:1"))
    here.policy = replace(POLICY, pci=policy(VF_ONLY))
    here.start()
    assert list(here.state.devices) == [GPU_0]
    here.start()
    here.release(guest)
    here.world.destroy(GUEST)
    here.start()
    assert list(here.state.devices) == []


def test_used_one_time_device_stays_unavailable_after_a_restart():
    """The quarantine of a device for one use is durable."""
    here = Agent(gpus=[GPU_0], policy=replace(POLICY, pci=policy(ONE_TIME)))
    here.release(here.build(with_devices("gpu:1")))
    for _ in range(2):
        assert device_allocations(here.state).state(GPU_0).state != "available"
        here.start()


# -- two agents for one node ------------------------------------------------------------------


def test_replaced_agent_writes_nothing():
    """LP1714248, LP1841481: a node was taken over by another service. At its next audit the former
    service deleted the node's record, and the provider in Placement, which were the other's by
    then."""
    here = Agent(gpus=[GPU_0])
    mine = here.run(with_devices("gpu:1"))
    here.audit()
    old, its_audit = here.tracker, here.auditor
    here.start()
    before = here.stored
    here.world.destroy(GUEST)
    here.world.unplug(GPU_0)
    assert not its_audit.run("periodic").good
    with pytest.raises(errors.StoreUnavailable):
        old.execute(release_claim, here.next_call("release_claim"), mine.uuid)
    assert isinstance(old.fault, errors.WriterFenced)
    assert here.stored == before
    here.audit()  # the new agent records the changes
    assert here.tracker.fault is None and here.stored != before


def test_two_machines_do_not_take_over_a_node_from_each_other():
    """LP1853009: each machine deleted and created again the record of the other."""
    one = Agent()
    registry = MemoryServiceRegistry(one.disk)
    for error in (errors.TakeoverPending, errors.IdentityError, errors.TakeoverPending):
        # A clock that is ahead or behind makes no difference.
        registry.heartbeat(one.node.host, one.clock.now() + timedelta(days=1))
        with pytest.raises(error, match="written by another agent"):
            one.start(machine="another")
    one.run()
    assert one.tracker.fault is None
    one.clock.advance(61)
    one.start(machine="another")
    assert one.states() == ["active"]


def test_removed_node_is_created_again_when_its_agent_restarts():
    """LP1853009: a process that had the node's record in memory did not notice that the database
    had lost it, and never created it again."""
    here = Agent()
    here.run()
    row = here.disk.node(here.node.uuid)
    row.record = replace(row.record, deleted_at=here.clock.now(), epoch=row.record.epoch + 1)
    here.tracker.check_position()
    assert isinstance(here.tracker.fault, errors.WriterFenced)
    here.start()
    assert here.disk.node(here.node.uuid).record.deleted_at is None
    assert here.states() == ["active"]
