"""What was lost at a restart, or drifted from the truth until there was one.

Everything that decides is in the database, in the transaction that makes it true; what a process
has in memory is what the next one will read.
"""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from rtagent.compute_node import compute_node
from rtagent.db.memory import MemoryServiceRegistry
from rtagent.errors import ClaimConflict, IdentityError, StoreUnavailable, WriterFenced
from rtagent.model.flavor import Flavor
from rtagent.model.instance import Instance, PciRequest
from rtagent.model.request import AttachRequest
from rtagent.pci.holds import holdings
from rtagent.pci.spec import parse_specs
from rtagent.views import absent, suspects
from tests.builders import uid
from tests.device_states import ONE_TIME, policy
from tests.moving_agents import (
    GUEST,
    LARGE,
    OTHER,
    POLICY,
    SMALL,
    Agent,
    told,
    with_devices,
)
from tests.pci_hosts import GPU_0, GPU_1, VF_IDS

GPU_2 = "0000:89:00.0"
VF_ONLY = parse_specs([json.dumps(VF_IDS)])


def attached(here, alias="gpu"):
    """A device is added to the guest."""
    request = AttachRequest(
        claim_uuid=uid(),
        instance=Instance(uuid=GUEST, flavor=SMALL),
        pci_requests=(PciRequest(count=1, alias_name=alias),),
    )
    claim = here.tracker.claim_pci_devices(request, here.asked("claim_pci_devices"))
    return here.tracker.allocate_pci_devices(GUEST, claim.uuid, here.asked("allocate_pci_devices"))


# -- one instance, several claims -----------------------------------------------------------------


def test_a_second_claim_of_an_instance_does_not_hide_the_first():
    """The devices of an instance were one entry: a second claim put its own in the place of the
    first one's, which were free for nobody and held by nobody until they were cleaned up."""
    here = Agent(gpus=[GPU_0, GPU_1, GPU_2])
    here.runs(with_devices("gpu:1"))
    attached(here)
    move = told()
    here.expects(move, with_devices("gpu:3"))
    for _ in range(2):
        assert here.holders() == dict.fromkeys([GPU_0, GPU_1, GPU_2], GUEST)
        here.start()
    with pytest.raises(ClaimConflict):
        here.builds(with_devices("gpu:1"))
    here.does("drop_move_claim_at_dest", move)
    assert here.holders() == dict.fromkeys([GPU_0, GPU_1], GUEST)
    here.world.destroy(GUEST)
    here.audit()
    here.hears("deleted")
    assert here.holders() == {}
    assert len(here.runs(with_devices("gpu:3"), OTHER).pci) == 3


# -- disk -----------------------------------------------------------------------------------------


def test_disk_comes_out_as_it_went_in():
    """Swap is in MB, and disk was a whole number of GB to which a fraction was added, and taken
    away again: each time the rest was cut off. Five times 512 MB more and less made 5 GB of 10."""
    here = Agent()
    here.runs(Flavor(vcpus=1, memory_mb=64, root_gb=10))
    before = compute_node(here.state)
    for _ in range(5):
        swapping = here.builds(Flavor(vcpus=1, memory_mb=64, swap=512), OTHER)
        assert here.state.usage.disk_mb == 10 * 1024 + 512
        here.releases(swapping)
        move = told()
        here.expects(move, Flavor(vcpus=1, memory_mb=64, root_gb=10, swap=512))
        here.does("drop_move_claim_at_dest", move)
    after = compute_node(here.state)
    assert (here.state.usage.disk_mb, after["local_gb_used"]) == (10 * 1024, 10)
    assert after["free_disk_gb"] == before["free_disk_gb"]
    assert here.kept.usage == here.state.usage


# -- what only memory knew ------------------------------------------------------------------------


def test_what_a_process_knew_the_next_one_knows():
    """That builds had failed, that a device was to be removed when it is free, that a guest was
    missed: each was known to one process, and forgotten with it."""
    here = Agent(gpus=[GPU_0, GPU_1, GPU_2])
    guest = here.runs(with_devices("gpu:1"))
    lost = here.runs(LARGE, OTHER)
    here.world.destroy(OTHER)
    here.audit()
    for _ in range(3):
        here.tracker.build_failed(here.asked("build_failed"))
    here.tracker.set_quarantine(GPU_1, "it coughs", here.asked("set_quarantine"))
    here.world.unplug(GPU_0)
    here.audit()
    for _ in range(2):
        assert compute_node(here.state)["stats"]["failed_builds"] == 3
        assert [claim.uuid for claim in suspects(here.state)] == [lost.uuid]
        assert here.state.devices[GPU_1].quarantine == "it coughs"
        assert [line.claim_uuid for line in absent(here.state)] == [guest.uuid]
        here.start()
    here.releases(guest)
    here.world.destroy(GUEST)
    here.audit()
    assert sorted(here.state.devices) == [GPU_1, GPU_2]


def test_a_device_that_is_offered_no_more_goes_when_it_is_free_whoever_runs_then():
    """As above: the mark that said so was in memory alone."""
    here = Agent(gpus=[GPU_0, GPU_1])
    guest = here.runs(with_devices("gpu:1"))
    here.policy = replace(POLICY, pci=policy(VF_ONLY))
    here.start()
    assert list(here.state.devices) == [GPU_0]
    here.start()
    here.releases(guest)
    here.world.destroy(GUEST)
    here.start()
    assert list(here.state.devices) == []


def test_what_was_used_once_is_kept_back_by_the_next_process_too():
    """As above, of devices for one use."""
    here = Agent(gpus=[GPU_0], policy=replace(POLICY, pci=policy(ONE_TIME)))
    here.releases(here.builds(with_devices("gpu:1")))
    for _ in range(2):
        assert holdings(here.state).state(GPU_0).state != "available"
        here.start()


# -- one node, two agents -------------------------------------------------------------------------


def test_an_agent_that_was_replaced_writes_nothing_any_more():
    """LP1714248, LP1841481: nodes went from one service to another when services came and went. The
    one before, at its next audit, deleted the record, and the provider in Placement, that were the
    other's by then."""
    here = Agent(gpus=[GPU_0])
    mine = here.runs(with_devices("gpu:1"))
    here.audit()
    old, its_audit = here.tracker, here.auditor
    here.start()
    before = here.kept
    here.world.destroy(GUEST)
    here.world.unplug(GPU_0)
    assert not its_audit.run("periodic").good
    with pytest.raises(StoreUnavailable):
        old.release_claim(mine.uuid, here.asked("release_claim"))
    assert isinstance(old.fault, WriterFenced)
    assert here.kept == before
    here.audit()  # the other one sees to it
    assert here.tracker.fault is None and here.kept != before


def test_two_machines_do_not_take_a_node_from_each_other():
    """LP1853009: each deleted, and made anew, what was the other's."""
    one = Agent()
    MemoryServiceRegistry(one.disk).heartbeat(one.node.host, one.clock.now())
    with pytest.raises(IdentityError, match="is written by another agent"):
        one.start(machine="another")
    one.runs()
    assert one.tracker.fault is None
    one.clock.advance(61)
    one.start(machine="another")
    assert one.states() == ["active"]


def test_a_node_that_was_removed_comes_back_with_its_agent():
    """LP1853009: who had a node's record in memory did not see that it was gone from the database,
    and never made it again."""
    here = Agent()
    here.runs()
    row = here.disk.node(here.node.uuid)
    row.record = replace(row.record, deleted_at=here.clock.now(), epoch=row.record.epoch + 1)
    here.tracker.prove()
    assert isinstance(here.tracker.fault, WriterFenced)
    here.start()
    assert here.disk.node(here.node.uuid).record.deleted_at is None
    assert here.states() == ["active"]
