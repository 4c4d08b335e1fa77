"""LP1791075, LP1600304, LP1764883, LP2085975, LP1818914, LP1647370, LP1498126: moves that did not
count, or counted for too long.

Of several evacuations to one host only those in task "rebuilding" counted, and the next guest got
CPUs that were in use. A stale migration counted for an instance that moved elsewhere. A host that
came back while its guests were evacuated took them up again, or dropped them. A confirmed resize
freed nothing, or the wrong flavor, until the next audit.
"""

from __future__ import annotations

import pytest

from rtagent.errors import ClaimNotFound, ComputeResourcesUnavailable
from tests.support.pci_hosts import GPU_0, GPU_1
from tests.support.three_hosts import ONE_GPU, PINNED_2, PLAIN, TWO_GPUS, Guests


def test_every_evacuation_counts_from_its_claim_on():
    guests = Guests()
    lost = [guests.run(0, PINNED_2) for _ in range(3)]
    claims = [guests.claim_move(1, guest, "evacuation")[0] for guest in lost]
    guests.audit(1)
    pins = [claim.numa_topology.taken for claim in claims]
    assert len(frozenset[int]().union(*pins)) == 6
    with pytest.raises(ComputeResourcesUnavailable):
        guests.claim(1, PINNED_2)


def test_only_claims_count_of_an_instance_that_moves_elsewhere():
    guests = Guests()
    guest = guests.run(0)
    _, first = guests.claim_move(1, guest)
    guests.move(1, "drop_move_claim", guest, first)
    guests.move(0, "drop_move_claim", guest, first)
    guests.claim_move(2, guest)
    for host, used in ((0, 1024), (1, 0), (2, 1024)):
        guests.audit(host)
        assert guests.state(host).usage.memory_mb == used


@pytest.mark.parametrize("shared", [True, False], ids=["one database", "one each"])
def test_host_that_restarts_during_an_evacuation_keeps_its_claim_until_it_is_done(shared):
    guests = Guests(shared=shared)
    lost = guests.run(0, ONE_GPU)
    new, migration = guests.claim_move(1, lost, "evacuation")
    guests.restart(0)  # its guest runs on, or is defined: the host knows no evacuation
    assert guests.states(0, lost) == ["active"]
    assert guests.allocated(0) == {GPU_0: lost.owner_id}

    guests.move(1, "finish_evacuation", lost, migration)
    guests.start_domain(1, new)
    guests.stop_domain(0, lost)
    guests.audit(0)
    # In a shared database the new claim shows it; else the conductor repeats the call.
    assert guests.states(0, lost) == ([] if shared else ["active"])
    guests.move(0, "drop_move_claim_at_source", lost, migration)
    assert guests.allocated(0) == {}
    assert guests.states(1, lost) == ["active"]
    guests.check_all()


def test_evacuated_guest_that_still_runs_at_its_source_counts_as_foreign():
    guests = Guests()
    lost = guests.run(0, ONE_GPU)
    _, migration = guests.claim_move(1, lost, "evacuation")
    guests.move(1, "finish_evacuation", lost, migration)
    guests.restart(0)
    assert guests.states(0, lost) == []
    assert guests.state(0).domain_usages[lost.owner_id].occupancy.devices == {GPU_0}
    assert [device.address for device in guests.claim(0, ONE_GPU).pci] == [GPU_1]
    with pytest.raises(ComputeResourcesUnavailable):
        guests.claim(0, ONE_GPU)


@pytest.mark.parametrize("flavor", [PLAIN, PINNED_2, TWO_GPUS], ids=["plain", "pins", "devices"])
def test_confirmation_frees_everything_before_it_answers(flavor):
    guests = Guests()
    old = guests.run(0, flavor)
    _, migration = guests.claim_move(1, old, flavor=PLAIN)
    guests.move(0, "start_move_out", old, migration)
    guests.move(1, "finish_move", old, migration)
    guests.move(0, "drop_move_claim_at_source", old, migration)
    state = guests.state(0)
    assert (state.usage.memory_mb, state.usage.pcpus, dict(state.units)) == (0, 0, {})
    guests.claim(0, flavor)  # no audit in between


def test_move_call_on_a_host_without_the_instance_is_not_found():
    guests = Guests()
    elsewhere = guests.run(0)
    _, migration = guests.claim_move(1, elsewhere)
    with pytest.raises(ClaimNotFound, match="has no claim here for migration"):
        guests.move(2, "start_move_out", elsewhere, migration)
