"""A resize on one host: both claims are here, and one guest is."""

import pytest

from rtagent import claims
from rtagent.errors import ClaimConflict, IllegalTransition
from rtagent.model.change import Change
from rtagent.model.decision import Refused
from rtagent.model.flavor import Flavor
from rtagent.model.policy import Policy
from tests.builders import PINNED, PINNING, call, request, uid
from tests.move_rules import GUEST, LARGE, SMALL, Host, facts
from tests.pci_hosts import GPU_0, GPU_1, gpu, record, two_gpus_and_a_nic, vf


def gpus(aliases: str) -> Flavor:
    return Flavor(vcpus=1, memory_mb=1024, extra_specs={"pci_passthrough:alias": aliases})


def pinned(vcpus: int) -> Flavor:
    return Flavor(vcpus=vcpus, memory_mb=512, extra_specs=PINNED)


def test_both_claims_are_counted_until_one_ends():
    here = Host()
    here.runs()
    told = facts()
    here.expects(told, LARGE)
    assert (here.usage.vcpus, here.usage.memory_mb, here.usage.disk_mb) == (3, 4096, 3072)
    here.starts_out(told)
    here.finishes(told)
    assert (here.states, here.usage.memory_mb) == (["outgoing", "active"], 4096)
    here.drops_source(told)
    assert (here.states, here.usage.memory_mb) == (["active"], 3072)
    assert here.status(told) == "confirmed"


@pytest.mark.parametrize("first", ["dest", "source"])
def test_a_revert_leaves_the_old_claim(first):
    here = Host()
    old = here.runs()
    told = facts()
    here.expects(told, LARGE)
    here.starts_out(told)
    here.finishes(told)
    steps = [lambda: here.drops_dest(told), lambda: here.takes_back(told)]
    for step in steps if first == "dest" else reversed(steps):
        step()
        step()
    assert here.states == ["active"]
    assert here.state.claims_of(GUEST)[0].uuid == old.uuid
    assert (here.usage.memory_mb, here.status(told)) == (1024, "reverted")


def test_a_failure_ends_both_sides_in_one_call():
    here = Host()
    old = here.runs()
    told = facts()
    here.expects(told, LARGE)
    here.starts_out(told)
    here.fails(told)
    here.fails(told)
    assert [claim.uuid for claim in here.state.claims_of(GUEST)] == [old.uuid]
    assert (here.states, here.status(told)) == (["active"], "error")


def test_a_move_that_was_reverted_has_not_failed():
    here = Host.named(1)
    here.runs()
    told = facts()
    here.expects(told)
    here.starts_out(told)
    here.drops_dest(told)
    here.fails(told)
    assert (here.states, here.status(told)) == (["active"], "reverted")


def test_what_is_not_finished_is_not_confirmed():
    here = Host()
    here.runs()
    told = facts()
    here.expects(told, LARGE)
    with pytest.raises(IllegalTransition, match="is incoming: drop_move_claim_at_source"):
        here.drops_source(told)
    assert here.states == ["active", "incoming"]


def test_what_is_confirmed_is_not_reverted():
    here = Host()
    here.runs()
    told = facts()
    here.expects(told, LARGE)
    here.starts_out(told)
    here.finishes(told)
    here.drops_source(told)
    for verb in (here.drops_dest, here.takes_back, here.fails, here.starts_out):
        with pytest.raises(IllegalTransition, match="is confirmed at its destination"):
            verb(told)
    assert here.states == ["active"]


def test_the_steps_of_the_two_sides_in_the_other_order():
    here = Host()
    here.runs()
    told = facts()
    here.expects(told, LARGE)
    here.finishes(told)
    here.starts_out(told)
    assert (here.states, here.status(told)) == (["outgoing", "active"], "finished")
    here.drops_source(told)
    assert here.states == ["active"]


def test_a_resize_after_a_resize():
    here = Host()
    here.runs()
    for flavor in (LARGE, SMALL, LARGE):
        told = facts()
        claim = here.expects(told, flavor)
        here.starts_out(told)
        here.finishes(told)
        here.drops_source(told)
        assert here.state.claims_of(GUEST)[0].uuid == claim.uuid
        assert here.usage.memory_mb == flavor.memory_mb


def test_an_owner_has_no_more_than_one_claim_and_the_one_of_a_move():
    here = Host()
    here.runs()
    first = facts()
    claim = here.expects(first, LARGE)
    with pytest.raises(ClaimConflict, match=claim.uuid):
        here.refuses(facts(), LARGE)
    here.starts_out(first)
    here.finishes(first)
    with pytest.raises(ClaimConflict, match=claim.uuid):
        here.refuses(facts(), LARGE)


def test_nothing_moves_that_is_still_being_built():
    here = Host()
    asked = request(owner=GUEST)
    here.decided(claims.build, asked, asked=call(operation_id=asked.claim_uuid))
    with pytest.raises(ClaimConflict, match=f"the building claim {asked.claim_uuid}"):
        here.refuses(facts(), LARGE)
    with pytest.raises(IllegalTransition, match="is building"):
        here.starts_out(facts())


def test_devices_are_offered_to_their_owner_first_and_shared():
    here = Host().offering(record([gpu(GPU_0), gpu(GPU_1)]))
    here.runs(gpus("gpu:1"))
    told = facts()
    grown = here.expects(told, gpus("gpu:2"), old=gpus("gpu:1"))
    assert [device.address for device in grown.pci] == [GPU_0, GPU_1]
    replaced = grown.pci_replaced["gpu"]
    assert (replaced.before, replaced.after) == ((GPU_0,), (GPU_0, GPU_1))
    assert here.holders() == {GPU_0: GUEST, GPU_1: GUEST}
    here.drops_dest(told)
    assert here.holders() == {GPU_0: GUEST}
    again = facts()
    here.expects(again, gpus("gpu:2"))
    here.starts_out(again)
    here.finishes(again)
    here.drops_source(again)
    assert here.holders() == {GPU_0: GUEST, GPU_1: GUEST}


def test_an_attached_device_goes_with_the_claim_it_was_added_to_and_is_covered_by_the_move():
    here = Host().offering(two_gpus_and_a_nic())
    here.runs()
    added = here.attaches()
    assert [device.address for device in added.pci] == [vf(0)]
    told = facts()
    # The instance as its conductor knows it: the device is a request of its own by now.
    new = here.expects(told, gpus("vf:1"))
    assert [device.address for device in new.pci] == [vf(0)]
    here.starts_out(told)
    here.finishes(told)
    here.drops_source(told)
    assert [claim.kind for claim in here.state.claims_of(GUEST)] == ["resize"]
    assert here.holders() == {vf(0): GUEST}


def test_an_attached_device_stays_when_the_move_is_reverted():
    here = Host().offering(two_gpus_and_a_nic())
    here.runs()
    added = here.attaches()
    told = facts()
    here.expects(told, gpus("vf:1"))
    here.starts_out(told)
    here.drops_dest(told)
    here.takes_back(told)
    assert added.uuid in here.state.claims
    assert here.holders() == {vf(0): GUEST}


def test_a_device_that_is_added_during_a_move_stays_as_long_as_either_claim():
    here = Host().offering(two_gpus_and_a_nic())
    old = here.runs()
    told = facts()
    here.expects(told, SMALL)
    added = here.attaches()
    here.starts_out(told)
    here.drops_dest(told)
    here.takes_back(told)
    assert added.uuid in here.state.claims
    assert here.holders() == {vf(0): GUEST}
    here.ends(old)
    assert here.holders() == {}


def test_cpus_of_the_two_claims_are_others_where_both_are_counted():
    here = Host.named(1, numa=PINNING)
    here.runs(pinned(3))
    told = facts()
    here.expects(told, pinned(2))
    assert len(here.holders()) == 5
    assert here.usage.pcpus == 5


def test_where_the_larger_is_counted_a_nearly_full_host_is_not_too_small():
    told = facts()
    both = Host.named(1, numa=PINNING)
    both.runs(pinned(4))
    assert isinstance(both.refuses(told, pinned(4)), Refused)

    here = Host.named(1, numa=PINNING, same_host_resize_reuse=True)
    here.runs(pinned(4))
    new = here.expects(told, pinned(4))
    assert new.numa_topology.taken == here.state.claims_of(GUEST)[0].numa_topology.taken
    assert (here.usage.pcpus, here.usage.memory_mb, len(here.holders())) == (4, 512, 4)
    here.starts_out(told)
    here.finishes(told)
    here.drops_source(told)
    assert (here.usage.pcpus, len(here.holders())) == (4, 4)


def test_the_larger_is_counted_resource_by_resource():
    here = Host.named(1, same_host_resize_reuse=True)
    here.runs(Flavor(vcpus=6, memory_mb=1024))
    here.expects(facts(), Flavor(vcpus=2, memory_mb=4096))
    assert (here.usage.vcpus, here.usage.memory_mb) == (6, 4096)


def test_amounts_of_both_must_fit_and_the_refusal_speaks_of_the_new_one():
    here = Host()
    here.runs(Flavor(vcpus=5, memory_mb=1024))
    refused = here.refuses(facts(), Flavor(vcpus=6, memory_mb=1024))
    assert isinstance(refused, Refused)
    (reason,) = refused.reasons
    assert (reason.resource, reason.requested, reason.available) == ("VCPU", 6, 3)
    generous = Host.named(1, cpu_allocation_ratio=4)
    generous.runs(Flavor(vcpus=5, memory_mb=1024))
    generous.expects(facts(), Flavor(vcpus=6, memory_mb=1024))  # 11 of 8 CPUs, by two claims


def test_the_option_may_change_while_an_instance_has_both_claims():
    here = Host.named(1, numa=PINNING)
    here.runs(pinned(3))
    here.expects(facts(), pinned(2))
    for reuse, pcpus in ((True, 3), (False, 5)):
        policy = Policy(numa=PINNING, same_host_resize_reuse=reuse)
        here.state = here.state.fold(Change(cause="policy", at=here.now, policy=policy))
        here.state.check()
        assert here.usage.pcpus == pcpus


def test_others_do_not_get_what_the_two_share():
    here = Host().offering(record([gpu(GPU_0), gpu(GPU_1)]))
    here.runs(gpus("gpu:1"))
    here.expects(facts(), gpus("gpu:2"))
    other = here.refuses(facts(), gpus("gpu:1"), uid())
    assert isinstance(other, Refused)
