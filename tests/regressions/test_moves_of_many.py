"""LP1791075, LP1600304, LP1764883, LP2085975, LP1818914, LP1647370, LP1498126: moves of which some
were not counted, or were counted for too long.

Of several evacuations to one host only those that were "rebuilding" counted; the next one was given
CPUs that were taken. A stale migration was counted for an instance that was on its way elsewhere. A
host that came back while its guests were being evacuated took them up again, or dropped them. And a
confirmed resize freed nothing, or the wrong flavor, until the next audit.
"""

from __future__ import annotations

import pytest

from rtagent.errors import ClaimNotFound, ComputeResourcesUnavailable
from tests.moving_guests import ONE_GPU, PINNED_2, PLAIN, TWO_GPUS, Guests
from tests.pci_hosts import GPU_0, GPU_1


def test_every_evacuation_counts_from_its_claim_on():
    guests = Guests()
    lost = [guests.run(0, PINNED_2) for _ in range(3)]
    claims = [guests.expect(1, guest, "evacuation")[0] for guest in lost]
    guests.audit(1)
    pins = [claim.numa_topology.taken for claim in claims]
    assert len(frozenset[int]().union(*pins)) == 6
    with pytest.raises(ComputeResourcesUnavailable):
        guests.claim(1, PINNED_2)


def test_of_an_instance_that_goes_elsewhere_only_its_claims_count():
    guests = Guests()
    guest = guests.run(0)
    _, first = guests.expect(1, guest)
    guests.say(1, "drop_move_claim", guest, first)
    guests.say(0, "drop_move_claim", guest, first)
    guests.expect(2, guest)
    for host, used in ((0, 1024), (1, 0), (2, 1024)):
        guests.audit(host)
        assert guests.state(host).usage.memory_mb == used


@pytest.mark.parametrize("shared", [True, False], ids=["one database", "one each"])
def test_a_host_that_is_back_during_an_evacuation_keeps_what_it_has_until_that_is_done(shared):
    guests = Guests(shared=shared)
    lost = guests.run(0, ONE_GPU)
    new, told = guests.expect(1, lost, "evacuation")
    guests.restart(0)  # its guest runs on, or is defined: nothing is known of the evacuation
    assert guests.states(0, lost) == ["active"]
    assert guests.holders(0) == {GPU_0: lost.owner_id}

    guests.say(1, "finish_evacuation", lost, told)
    guests.appears(1, new)
    guests.goes(0, lost)
    guests.audit(0)
    # All who read one database know it; else the conductor says it until it is heard.
    assert guests.states(0, lost) == ([] if shared else ["active"])
    guests.say(0, "drop_move_claim_at_source", lost, told)
    assert guests.holders(0) == {}
    assert guests.states(1, lost) == ["active"]
    guests.checked()


def test_a_guest_that_still_runs_on_the_host_that_is_back_is_counted_and_nobodys():
    guests = Guests()
    lost = guests.run(0, ONE_GPU)
    _, told = guests.expect(1, lost, "evacuation")
    guests.say(1, "finish_evacuation", lost, told)
    guests.restart(0)
    assert guests.states(0, lost) == []
    assert guests.state(0).holdings[lost.owner_id].occupancy.devices == {GPU_0}
    assert [device.address for device in guests.claim(0, ONE_GPU).pci] == [GPU_1]
    with pytest.raises(ComputeResourcesUnavailable):
        guests.claim(0, ONE_GPU)


@pytest.mark.parametrize("flavor", [PLAIN, PINNED_2, TWO_GPUS], ids=["plain", "pins", "devices"])
def test_what_is_confirmed_is_free_with_the_answer(flavor):
    guests = Guests()
    old = guests.run(0, flavor)
    _, told = guests.expect(1, old, flavor=PLAIN)
    guests.say(0, "start_move_out", old, told)
    guests.say(1, "finish_move", old, told)
    guests.say(0, "drop_move_claim_at_source", old, told)
    state = guests.state(0)
    assert (state.usage.memory_mb, state.usage.pcpus, dict(state.units)) == (0, 0, {})
    guests.claim(0, flavor)  # no audit in between


def test_of_an_instance_that_is_not_here_the_error_says_so():
    guests = Guests()
    elsewhere = guests.run(0)
    _, told = guests.expect(1, elsewhere)
    with pytest.raises(ClaimNotFound, match="has no claim here for migration"):
        guests.say(2, "start_move_out", elsewhere, told)
