"""A resize on one host: both claims are here, and one guest is."""

import pytest

from rtagent.errors import IllegalTransition
from rtagent.model.decision import Refused
from rtagent.model.request import Flavor
from tests.support.hosts import PINNED, PINNING
from tests.support.move_host import GUEST, LARGE, Host, facts
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record, two_gpus_and_a_nic, vf


def gpus(aliases: str) -> Flavor:
    return Flavor(vcpus=1, memory_mb=1024, extra_specs={"pci_passthrough:alias": aliases})


def pinned(vcpus: int) -> Flavor:
    return Flavor(vcpus=vcpus, memory_mb=512, extra_specs=PINNED)


def resizing():
    """A host on which a guest gets another size, and its migration."""
    here, migration = Host(), facts()
    here.build()
    here.claim_move(migration, LARGE)
    return here, migration


def complete(here, migration):
    """The guest of a resize is there for good."""
    here.start_move_out(migration)
    here.finish_move(migration)
    here.drop_at_source(migration)


def test_unfinished_resize_is_not_confirmed():
    here, migration = resizing()
    with pytest.raises(IllegalTransition, match="is incoming: drop_move_claim_at_source"):
        here.drop_at_source(migration)
    assert here.states == ["active", "incoming"]


def test_confirmed_resize_is_not_reverted():
    here, migration = resizing()
    complete(here, migration)
    for verb in (here.drop_at_dest, here.finish_revert, here.drop, here.start_move_out):
        with pytest.raises(IllegalTransition, match="is confirmed at its destination"):
            verb(migration)
    assert here.states == ["active"]


def test_destination_may_finish_before_the_source_starts():
    here, migration = resizing()
    here.finish_move(migration)
    here.start_move_out(migration)
    assert (here.states, here.status(migration)) == (["outgoing", "active"], "finished")
    here.drop_at_source(migration)
    assert here.states == ["active"]


def test_devices_are_not_shared_if_the_policy_says_so():
    here = Host.named(1, share_devices=False).with_devices(record([gpu(GPU_0), gpu(GPU_1)]))
    here.build(gpus("gpu:1"))
    refused = here.try_move(facts(), gpus("gpu:2"))
    assert [(reason.resource, reason.available) for reason in refused.reasons] == [("PCI gpu", 1)]


def test_attach_claim_ends_with_its_main_claim_and_the_move_keeps_its_device():
    here = Host().with_devices(two_gpus_and_a_nic())
    here.build()
    assert [device.address for device in here.attach().pci] == [vf(0)]
    migration = facts()
    # The conductor has added the device to the instance's requests since.
    new = here.claim_move(migration, gpus("vf:1"))
    assert [device.address for device in new.pci] == [vf(0)]
    complete(here, migration)
    assert [claim.kind for claim in here.state.claims_of(GUEST)] == ["resize"]
    assert here.allocated() == {vf(0): GUEST}


def test_claims_share_cpus_if_the_larger_is_counted():
    both = Host.named(1, numa=PINNING)
    both.build(pinned(4))
    assert isinstance(both.try_move(facts(), pinned(4)), Refused)

    here = Host.named(1, numa=PINNING, same_host_resize_reuse=True)
    here.build(pinned(4))
    new = here.claim_move(facts(), pinned(4))
    assert new.numa_topology.taken == here.state.claims_of(GUEST)[0].numa_topology.taken
    assert (here.usage.pcpus, here.usage.memory_mb, len(here.allocated())) == (4, 512, 4)


@pytest.mark.parametrize("ratio", [1, 4])
def test_both_claims_must_fit_and_the_refusal_names_the_new_quantity(ratio):
    here = Host.named(1, cpu_allocation_ratio=ratio)
    here.build(Flavor(vcpus=5, memory_mb=1024))
    decision = here.try_move(facts(), Flavor(vcpus=6, memory_mb=1024))
    refused = decision.reasons if isinstance(decision, Refused) else ()
    expected = [("VCPU", 6, 3)] if ratio == 1 else []  # 11 of 8 CPUs, by two claims
    assert [(each.resource, each.requested, each.available) for each in refused] == expected
