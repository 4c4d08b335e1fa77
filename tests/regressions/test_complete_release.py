"""Resources that Nova took and did not give back because something else failed.

Usage was added before the write that failed: a claim that raised left memory used, and an instance
on the host, until the next audit. LP1834712: after a failed write the tracker took it for done, and
a null in the record broke the scheduler. LP1549984: a claim took devices and then failed for
memory. LP1860555: after a failed build the instance kept the host's devices. The end of a move
claim ignored which of the two claims was meant. A second claim of an instance made Nova forget the
first one's devices. Disk drifted, because swap was added and subtracted in fractions of a GB. The
number of failed builds was lost at a restart.
"""

from __future__ import annotations

import pytest

from rtagent.claims import abort_instance_claim, build_failed
from rtagent.errors import ComputeResourcesUnavailable, StoreUnavailable
from rtagent.model.request import Flavor
from tests.support.hosts import call
from tests.support.pci_hosts import GPU_0, GPU_1
from tests.support.three_hosts import ONE_GPU, TWO_GPUS, Guests


def assert_nothing_is_used(guests: Guests, host: int) -> None:
    state = guests.state(host)
    assert not state.claims and not state.units and not state.migrations
    assert (state.usage.memory_mb, state.usage.vcpus, state.usage.disk_mb) == (0, 0, 0)


def test_claim_that_cannot_be_written_uses_nothing():
    guests = Guests()
    old = guests.run(0)
    guests.stores[1].fail(StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        guests.claim(1, ONE_GPU)
    assert guests.trackers[1].recover()
    assert_nothing_is_used(guests, 1)
    guests.stores[1].fail(StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        guests.claim_move(1, old, flavor=ONE_GPU)
    assert guests.trackers[1].recover()
    assert_nothing_is_used(guests, 1)
    guests.check_all()


def test_claims_succeed_after_a_failed_write():
    guests = Guests()
    guests.stores[0].fail(StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        guests.claim(0)
    assert guests.trackers[0].recover()
    guests.run(0)
    guests.check_all()
    state = guests.state(0)
    assert state.usage.memory_mb == 1024


def test_move_that_is_refused_for_memory_takes_no_device():
    guests = Guests()
    old = guests.run(0, ONE_GPU)
    huge = Flavor(vcpus=1, memory_mb=1_000_000, extra_specs=TWO_GPUS.extra_specs)
    for host in (0, 1):
        before = guests.state(host)
        with pytest.raises(ComputeResourcesUnavailable):
            guests.claim_move(host, old, flavor=huge)
        assert guests.state(host) is before


def test_build_on_another_host_frees_the_first_hosts_devices():
    guests = Guests()
    first = guests.claim(0, ONE_GPU)
    guests.trackers[0].execute(abort_instance_claim, call("abort_instance_claim"), first.uuid)
    second = guests.claim(1, ONE_GPU, first.owner_id)
    assert guests.allocated(0) == {}
    assert guests.allocated(1) == {device.address: first.owner_id for device in second.pci}


@pytest.mark.parametrize("at", ["source", "dest"])
def test_dropping_a_move_claim_ends_the_claim_that_is_meant(at):
    guests = Guests()
    old = guests.run(0, ONE_GPU)
    new, migration = guests.claim_move(0, old, flavor=TWO_GPUS)
    guests.move(0, "start_move_out", old, migration)
    guests.move(0, "finish_move", old, migration)
    guests.move(0, f"drop_move_claim_at_{at}", old, migration)
    (left,) = guests.state(0).claims_of(old.owner_id)
    assert left.uuid == (new if at == "source" else old).uuid
    assert guests.allocated(0).keys() == {device.address for device in left.pci}


def test_second_claim_keeps_the_devices_of_the_first():
    guests = Guests()
    old = guests.run(0, ONE_GPU)
    _, migration = guests.claim_move(0, old, flavor=TWO_GPUS)
    assert guests.allocated(0).keys() == {GPU_0, GPU_1}
    guests.move(0, "drop_move_claim", old, migration)
    assert guests.allocated(0).keys() == {GPU_0}
    guests.update(0, old, "deleted")
    assert guests.allocated(0) == {}


def test_disk_usage_of_moved_guests_returns_to_its_former_value():
    guests = Guests()
    ten = guests.run(0, Flavor(vcpus=1, memory_mb=64, root_gb=10))
    small = Flavor(vcpus=1, memory_mb=64, root_gb=1, swap=512)
    for _ in range(5):
        guest = guests.run(0, small)
        _, migration = guests.claim_move(1, guest)
        guests.move(0, "start_move_out", guest, migration)
        guests.move(0, "drop_move_claim_at_source", guest, migration)
        guests.move(1, "drop_move_claim_at_dest", guest, migration)
    assert guests.state(0).usage.disk_mb == 10 * 1024
    guests.update(0, ten, "deleted")
    assert [guests.state(host).usage.disk_mb for host in (0, 1)] == [0, 0]


def test_moves_and_failed_builds_survive_a_restart():
    guests = Guests()
    guests.trackers[0].execute(build_failed, call("build_failed"))
    guests.trackers[0].execute(build_failed, call("build_failed"))
    old = guests.run(0, ONE_GPU)
    _, migration = guests.claim_move(1, old)
    guests.move(0, "start_move_out", old, migration)
    before = [guests.state(host) for host in (0, 1)]
    for host in (0, 1):
        guests.restart(host)
        after = guests.state(host)
        assert dict(after.claims) == dict(before[host].claims)
        assert dict(after.migrations) == dict(before[host].migrations)
        assert dict(after.units) == dict(before[host].units)
    assert guests.state(0).failed_builds == 2
    guests.move(1, "finish_move", old, migration)
    guests.move(0, "drop_move_claim_at_source", old, migration)
    assert (guests.allocated(0), guests.states(1, old)) == ({}, ["active"])
