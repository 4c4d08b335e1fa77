"""A resize on one host: both claims are here, and one guest is."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ClaimConflict, IllegalTransition
from rtagent.model.assignment import ResourceInventory
from rtagent.model.change import Change
from rtagent.model.decision import Refused
from rtagent.model.policy import Policy
from rtagent.model.request import Flavor
from tests.support.hosts import PINNED, PINNING, uid
from tests.support.move_host import GUEST, LARGE, SMALL, Host, facts
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record, two_gpus_and_a_nic, vf


def gpus(aliases: str) -> Flavor:
    return Flavor(vcpus=1, memory_mb=1024, extra_specs={"pci_passthrough:alias": aliases})


def pinned(vcpus: int) -> Flavor:
    return Flavor(vcpus=vcpus, memory_mb=512, extra_specs=PINNED)


def test_both_claims_count_until_one_ends():
    here = Host()
    here.build()
    migration = facts()
    here.claim_move(migration, LARGE)
    assert (here.usage.vcpus, here.usage.memory_mb, here.usage.disk_mb) == (3, 4096, 3072)
    here.start_move_out(migration)
    here.finish_move(migration)
    assert (here.states, here.usage.memory_mb) == (["outgoing", "active"], 4096)
    here.drop_at_source(migration)
    assert (here.states, here.usage.memory_mb) == (["active"], 3072)
    assert here.status(migration) == "confirmed"


@pytest.mark.parametrize("first", ["dest", "source"])
def test_revert_leaves_the_old_claim(first):
    here = Host()
    old = here.build()
    migration = facts()
    here.claim_move(migration, LARGE)
    here.start_move_out(migration)
    here.finish_move(migration)
    steps = [here.drop_at_dest, here.finish_revert]
    for step in steps if first == "dest" else reversed(steps):
        step(migration)
        step(migration)
    assert here.states == ["active"]
    assert here.state.claims_of(GUEST)[0].uuid == old.uuid
    assert (here.usage.memory_mb, here.status(migration)) == (1024, "reverted")


def test_failed_resize_ends_at_both_sides_in_one_call():
    here = Host()
    old = here.build()
    migration = facts()
    here.claim_move(migration, LARGE)
    here.start_move_out(migration)
    here.drop(migration)
    here.drop(migration)
    assert [claim.uuid for claim in here.state.claims_of(GUEST)] == [old.uuid]
    assert (here.states, here.status(migration)) == (["active"], "error")


def test_reverted_resize_stays_reverted_if_it_is_dropped_later():
    here = Host.named(1)
    here.build()
    migration = facts()
    here.claim_move(migration)
    here.start_move_out(migration)
    here.drop_at_dest(migration)
    here.drop(migration)
    assert (here.states, here.status(migration)) == (["active"], "reverted")


def test_unfinished_resize_is_not_confirmed():
    here = Host()
    here.build()
    migration = facts()
    here.claim_move(migration, LARGE)
    with pytest.raises(IllegalTransition, match="is incoming: drop_move_claim_at_source"):
        here.drop_at_source(migration)
    assert here.states == ["active", "incoming"]


def test_confirmed_resize_is_not_reverted():
    here = Host()
    here.build()
    migration = facts()
    here.claim_move(migration, LARGE)
    here.start_move_out(migration)
    here.finish_move(migration)
    here.drop_at_source(migration)
    for verb in (here.drop_at_dest, here.finish_revert, here.drop, here.start_move_out):
        with pytest.raises(IllegalTransition, match="is confirmed at its destination"):
            verb(migration)
    assert here.states == ["active"]


def test_destination_may_finish_before_the_source_starts():
    here = Host()
    here.build()
    migration = facts()
    here.claim_move(migration, LARGE)
    here.finish_move(migration)
    here.start_move_out(migration)
    assert (here.states, here.status(migration)) == (["outgoing", "active"], "finished")
    here.drop_at_source(migration)
    assert here.states == ["active"]


def test_owner_has_at_most_one_claim_and_one_of_a_move():
    here = Host()
    here.build()
    first = facts()
    claim = here.claim_move(first, LARGE)
    with pytest.raises(ClaimConflict, match=claim.uuid):
        here.try_move(facts(), LARGE)
    here.start_move_out(first)
    here.finish_move(first)
    with pytest.raises(ClaimConflict, match=claim.uuid):
        here.try_move(facts(), LARGE)


def test_devices_of_the_owner_are_reused_and_shared_by_both_claims():
    here = Host().with_devices(record([gpu(GPU_0), gpu(GPU_1)]))
    here.build(gpus("gpu:1"))
    migration = facts()
    grown = here.claim_move(migration, gpus("gpu:2"), old=gpus("gpu:1"))
    assert [device.address for device in grown.pci] == [GPU_0, GPU_1]
    replaced = grown.pci_replaced["gpu"]
    assert (replaced.before, replaced.after) == ((GPU_0,), (GPU_0, GPU_1))
    assert here.allocated() == {GPU_0: GUEST, GPU_1: GUEST}
    here.drop_at_dest(migration)
    assert here.allocated() == {GPU_0: GUEST}
    again = facts()
    here.claim_move(again, gpus("gpu:2"))
    here.start_move_out(again)
    here.finish_move(again)
    here.drop_at_source(again)
    assert here.allocated() == {GPU_0: GUEST, GPU_1: GUEST}


def test_devices_are_not_shared_if_the_policy_says_so():
    three = record([gpu(GPU_0), gpu(GPU_1), gpu("0000:89:00.0")])
    here = Host.named(1, share_devices=False).with_devices(three)
    here.build(gpus("gpu:1"))
    migration = facts()
    grown = here.claim_move(migration, gpus("gpu:2"), old=gpus("gpu:1"))
    assert [device.address for device in grown.pci] == [GPU_1, "0000:89:00.0"]
    here.drop_at_dest(migration)
    assert here.allocated() == {GPU_0: GUEST}
    refused = here.try_move(facts(), gpus("gpu:3"))
    assert isinstance(refused, Refused)
    assert [(reason.resource, reason.available) for reason in refused.reasons] == [("PCI gpu", 2)]


def test_assigned_resources_are_not_shared_if_the_policy_says_so():
    for share, expected in ((True, ["ns0"]), (False, ["ns1"])):
        here = Host.named(1, share_devices=share)
        inventory = ResourceInventory(
            provider="", resource_class="CUSTOM_PMEM_NAMESPACE_4GB", identifiers=("ns0", "ns1")
        )
        here.state = replace(here.state, resource_inventories=(inventory,))
        here.build(replace(SMALL, extra_specs={"hw:pmem": "4GB"}))
        grown = here.claim_move(facts(), replace(LARGE, extra_specs={"hw:pmem": "4GB"}))
        assert [unit.identifier for unit in grown.resources] == expected


def test_attach_claim_ends_with_its_main_claim_and_the_move_keeps_its_device():
    here = Host().with_devices(two_gpus_and_a_nic())
    here.build()
    added = here.attach()
    assert [device.address for device in added.pci] == [vf(0)]
    migration = facts()
    # The conductor has added the device to the instance's requests since.
    new = here.claim_move(migration, gpus("vf:1"))
    assert [device.address for device in new.pci] == [vf(0)]
    here.start_move_out(migration)
    here.finish_move(migration)
    here.drop_at_source(migration)
    assert [claim.kind for claim in here.state.claims_of(GUEST)] == ["resize"]
    assert here.allocated() == {vf(0): GUEST}


def test_device_that_is_attached_during_a_move_stays_until_both_claims_end():
    here = Host().with_devices(two_gpus_and_a_nic())
    old = here.build()
    migration = facts()
    here.claim_move(migration, SMALL)
    added = here.attach()
    here.start_move_out(migration)
    here.drop_at_dest(migration)
    here.finish_revert(migration)
    assert added.uuid in here.state.claims
    assert here.allocated() == {vf(0): GUEST}
    here.release(old)
    assert here.allocated() == {}


def test_claims_have_different_cpus_if_both_are_counted():
    here = Host.named(1, numa=PINNING)
    here.build(pinned(3))
    migration = facts()
    here.claim_move(migration, pinned(2))
    assert len(here.allocated()) == 5
    assert here.usage.pcpus == 5


def test_claims_share_cpus_if_the_larger_is_counted():
    migration = facts()
    both = Host.named(1, numa=PINNING)
    both.build(pinned(4))
    assert isinstance(both.try_move(migration, pinned(4)), Refused)

    here = Host.named(1, numa=PINNING, same_host_resize_reuse=True)
    here.build(pinned(4))
    new = here.claim_move(migration, pinned(4))
    assert new.numa_topology.taken == here.state.claims_of(GUEST)[0].numa_topology.taken
    assert (here.usage.pcpus, here.usage.memory_mb, len(here.allocated())) == (4, 512, 4)
    here.start_move_out(migration)
    here.finish_move(migration)
    here.drop_at_source(migration)
    assert (here.usage.pcpus, len(here.allocated())) == (4, 4)


def test_larger_claim_is_counted_resource_by_resource():
    here = Host.named(1, same_host_resize_reuse=True)
    here.build(Flavor(vcpus=6, memory_mb=1024))
    here.claim_move(facts(), Flavor(vcpus=2, memory_mb=4096))
    assert (here.usage.vcpus, here.usage.memory_mb) == (6, 4096)


def test_both_claims_must_fit_and_the_refusal_names_the_new_quantity():
    here = Host()
    here.build(Flavor(vcpus=5, memory_mb=1024))
    refused = here.try_move(facts(), Flavor(vcpus=6, memory_mb=1024))
    assert isinstance(refused, Refused)
    (reason,) = refused.reasons
    assert (reason.resource, reason.requested, reason.available) == ("VCPU", 6, 3)
    generous = Host.named(1, cpu_allocation_ratio=4)
    generous.build(Flavor(vcpus=5, memory_mb=1024))
    generous.claim_move(facts(), Flavor(vcpus=6, memory_mb=1024))  # 11 of 8 CPUs, by two claims


def test_reuse_option_may_change_while_an_instance_has_both_claims():
    here = Host.named(1, numa=PINNING)
    here.build(pinned(3))
    here.claim_move(facts(), pinned(2))
    for reuse, pcpus in ((True, 3), (False, 5)):
        policy = Policy(numa=PINNING, same_host_resize_reuse=reuse)
        here.state = here.state.fold(Change(cause="policy", at=here.now, policy=policy))
        here.state.check()
        assert here.usage.pcpus == pcpus


def test_other_owners_do_not_get_shared_devices():
    here = Host().with_devices(record([gpu(GPU_0), gpu(GPU_1)]))
    here.build(gpus("gpu:1"))
    here.claim_move(facts(), gpus("gpu:2"))
    other = here.try_move(facts(), gpus("gpu:1"), uid())
    assert isinstance(other, Refused)
