"""What was taken and not given back, because something else failed.

Usage was added before the write that failed (a claim that raised left memory used, and an instance
on the host, until the next audit); LP1834712: a failed write left the tracker believing that it had
been made, and a null in the record that broke the scheduler; LP1549984: a claim took devices and
then failed for memory; LP1860555: devices of a host that gave a build up stayed the instance's. The
end of a move claim ignored which of the two was meant; a second claim of one instance made the
first one's devices forgotten; disk drifted, as swap was added and subtracted in fractions of a GB;
and the number of failed builds was lost at a restart.
"""

from __future__ import annotations

import pytest

from rtagent.errors import ComputeResourcesUnavailable, StoreUnavailable
from rtagent.model.flavor import Flavor
from tests.builders import call
from tests.moving_guests import ONE_GPU, TWO_GPUS, Guests
from tests.pci_hosts import GPU_0, GPU_1


def nothing(guests: Guests, host: int) -> None:
    state = guests.state(host)
    assert not state.claims and not state.units and not state.migrations
    assert (state.usage.memory_mb, state.usage.vcpus, state.usage.disk_mb) == (0, 0, 0)


def test_a_claim_that_could_not_be_written_holds_nothing():
    guests = Guests()
    old = guests.run(0)
    guests.stores[1].fail(StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        guests.claim(1, ONE_GPU)
    assert guests.trackers[1].recover()
    nothing(guests, 1)
    guests.stores[1].fail(StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        guests.expect(1, old, flavor=ONE_GPU)
    assert guests.trackers[1].recover()
    nothing(guests, 1)
    guests.checked()


def test_what_could_not_be_written_is_written_the_next_time():
    guests = Guests()
    guests.stores[0].fail(StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        guests.claim(0)
    assert guests.trackers[0].recover()
    guests.run(0)
    guests.checked()
    state = guests.state(0)
    assert state.usage.memory_mb == 1024


def test_a_move_that_is_refused_for_memory_has_taken_no_device():
    guests = Guests()
    old = guests.run(0, ONE_GPU)
    huge = Flavor(vcpus=1, memory_mb=1_000_000, extra_specs=TWO_GPUS.extra_specs)
    for host in (0, 1):
        before = guests.state(host)
        with pytest.raises(ComputeResourcesUnavailable):
            guests.expect(host, old, flavor=huge)
        assert guests.state(host) is before


def test_a_build_that_goes_elsewhere_leaves_its_devices_behind():
    guests = Guests()
    first = guests.claim(0, ONE_GPU)
    guests.trackers[0].abort_instance_claim(first.uuid, call("abort_instance_claim"))
    second = guests.claim(1, ONE_GPU, first.owner_id)
    assert guests.holders(0) == {}
    assert guests.holders(1) == {device.address: first.owner_id for device in second.pci}


@pytest.mark.parametrize("at", ["source", "dest"])
def test_of_the_two_claims_of_a_move_the_one_that_is_meant_ends(at):
    guests = Guests()
    old = guests.run(0, ONE_GPU)
    new, told = guests.expect(0, old, flavor=TWO_GPUS)
    guests.say(0, "start_move_out", old, told)
    guests.say(0, "finish_move", old, told)
    guests.say(0, f"drop_move_claim_at_{at}", old, told)
    (left,) = guests.state(0).claims_of(old.owner_id)
    assert left.uuid == (new if at == "source" else old).uuid
    assert guests.holders(0).keys() == {device.address for device in left.pci}


def test_a_second_claim_forgets_nothing_of_the_first():
    guests = Guests()
    old = guests.run(0, ONE_GPU)
    _, told = guests.expect(0, old, flavor=TWO_GPUS)
    assert guests.holders(0).keys() == {GPU_0, GPU_1}
    guests.say(0, "drop_move_claim", old, told)
    assert guests.holders(0).keys() == {GPU_0}
    guests.tell(0, old, "deleted")
    assert guests.holders(0) == {}


def test_disk_comes_back_to_what_it_was():
    guests = Guests()
    ten = guests.run(0, Flavor(vcpus=1, memory_mb=64, root_gb=10))
    small = Flavor(vcpus=1, memory_mb=64, root_gb=1, swap=512)
    for _ in range(5):
        guest = guests.run(0, small)
        _, told = guests.expect(1, guest)
        guests.say(0, "start_move_out", guest, told)
        guests.say(0, "drop_move_claim_at_source", guest, told)
        guests.say(1, "drop_move_claim_at_dest", guest, told)
    assert guests.state(0).usage.disk_mb == 10 * 1024
    guests.tell(0, ten, "deleted")
    assert [guests.state(host).usage.disk_mb for host in (0, 1)] == [0, 0]


def test_what_matters_is_known_after_a_restart():
    guests = Guests()
    guests.trackers[0].build_failed(call("build_failed"))
    guests.trackers[0].build_failed(call("build_failed"))
    old = guests.run(0, ONE_GPU)
    _, told = guests.expect(1, old)
    guests.say(0, "start_move_out", old, told)
    before = [guests.state(host) for host in (0, 1)]
    for host in (0, 1):
        guests.restart(host)
        after = guests.state(host)
        assert dict(after.claims) == dict(before[host].claims)
        assert dict(after.migrations) == dict(before[host].migrations)
        assert dict(after.units) == dict(before[host].units)
    assert guests.state(0).failed_builds == 2
    guests.say(1, "finish_move", old, told)
    guests.say(0, "drop_move_claim_at_source", old, told)
    assert (guests.holders(0), guests.states(1, old)) == ({}, ["active"])
