"""What is free when a move ends: at which moment, and how much.

Nova calculated it from flavors that the instance kept as "old" and "new". Here each claim records
what it holds.
"""

import pytest

from rtagent.errors import ClaimNotFound, RequestError
from rtagent.model.claim import EVACUATION
from rtagent.model.migration import DONE, ERROR
from tests.support.agents import (
    GUEST,
    LARGE,
    LEASE,
    OTHER,
    SMALL,
    Agent,
    agents,
    facts,
    pinned,
    with_devices,
)
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_0, GPU_1


def resized(move, old=SMALL, new=LARGE, **host):
    """A guest that has arrived at the destination of its resize."""
    source, dest = agents(**host)
    source.run(old)
    dest.claim_move(move, new, old=old)
    source.move("start_move_out", move)
    source.world.destroy(GUEST)
    dest.start_domain(dest.move("finish_move", move))
    return source, dest


@pytest.mark.parametrize("flavors", [(None, None), (SMALL, LARGE), (LARGE, SMALL), (None, LARGE)])
def test_confirmation_does_not_depend_on_the_flavors_that_the_caller_names(flavors):
    """LP1834349, LP1944759: the confirmation removes the instance's old flavor, and its record at
    the source never had it: an audit that ran then failed on the missing flavor."""
    old, new = flavors
    move = facts(old_flavor=old, new_flavor=new)
    source, dest = resized(move)
    assert (source.audit().good, dest.audit().good) == (True, True)
    source.move("drop_move_claim_at_source", move)
    assert (source.state.usage.memory_mb, dest.state.usage.memory_mb) == (0, LARGE.memory_mb)
    assert (source.audit().good, dest.audit().good) == (True, True)
    assert (source.state.usage.memory_mb, dest.state.usage.memory_mb) == (0, LARGE.memory_mb)


def test_confirmation_frees_everything_at_the_source_at_once():
    """LP1818914, LP1647370, LP1498126: a confirmation freed nothing, or the quantities of the new
    flavor. The source's resources were free at its next audit, minutes later."""
    old = pinned(4, "gpu:2", root_gb=10, swap=512)
    move = facts(old_flavor=LARGE, new_flavor=SMALL)  # the caller is wrong
    source, _ = resized(move, old=old, new=pinned(1), gpus=[GPU_0, GPU_1])
    source.move("drop_move_claim_at_source", move)
    used = source.state.usage
    assert (used.pcpus, used.memory_mb, used.disk_mb, source.allocated()) == (0, 0, 0, {})
    source.run(old, OTHER)  # no audit in between


def test_each_end_of_a_resize_on_one_host_frees_its_own_claim_at_once():
    """LP1818914, LP1647370, LP1498126, for two claims of one instance on one host."""
    for end, left in (("drop_move_claim_at_source", LARGE), ("drop_move_claim_at_dest", SMALL)):
        here, move = Agent(), facts()
        here.run(SMALL)
        here.claim_move(move, LARGE)
        here.move("start_move_out", move)
        here.move("finish_move", move)
        here.move(end, move)
        assert (here.state.usage.memory_mb, here.state.usage.disk_mb) == (
            left.memory_mb,
            left.root_gb * 1024,
        )


def test_stale_migration_does_not_count_for_a_guest_that_moves_elsewhere():
    """LP1600304: a move failed and was tried again to another host. The record at the first
    destination stayed, and counted there until the table was repaired."""
    source, first, second = agents(3)
    source.run()
    lost = facts()
    first.claim_move(lost, LARGE)  # and drop_move_claim is never called
    first.clock.advance(LEASE + 1)
    first.audit()
    move = facts()
    second.claim_move(move, LARGE)
    source.move("start_move_out", move)
    second.move("finish_move", move)
    for _ in range(2):
        assert first.state.usage.memory_mb == 0
        assert first.state.migrations[lost.uuid].status == ERROR
        first.start()
    with pytest.raises(RequestError):
        first.move("finish_move", lost)
    assert [agent.state.usage.memory_mb for agent in (source, first, second)] == [1024, 0, 3072]


def test_failed_migration_does_not_count_besides_the_one_that_succeeded():
    """LP1600304, for two moves to one host, of which one failed."""
    here = Agent()
    here.move("drop_move_claim", facts())
    failed = facts()
    here.claim_move(failed, LARGE)
    here.move("drop_move_claim", failed)
    move = facts()
    here.claim_move(move, SMALL)
    here.start_domain(here.move("finish_move", move))
    here.move("drop_move_claim", failed)
    here.audit()
    here.start()
    assert (here.states(), here.state.usage.memory_mb) == (["active"], SMALL.memory_mb)


def test_move_call_on_a_host_without_the_instance_is_not_found():
    source, dest, other = agents(3)
    source.run()
    move = facts()
    dest.claim_move(move)
    with pytest.raises(ClaimNotFound, match="has no claim here for migration"):
        other.move("start_move_out", move)


@pytest.mark.parametrize(
    ("verb", "left", "devices"),
    [
        ("drop_move_claim_at_source", "the new one", [GPU_0, GPU_1]),
        ("drop_move_claim_at_dest", "the old one", [GPU_0]),
        ("drop_move_claim", "the old one", [GPU_0]),
    ],
)
def test_dropping_a_move_claim_frees_the_side_that_the_method_names(verb, left, devices):
    """Nova's method took the prefix "old_" or "new_", and ignored it: it always freed the resources
    of the new flavor."""
    here, move = Agent(gpus=[GPU_0, GPU_1]), facts()
    old = here.run(with_devices("gpu:1"))
    new = here.claim_move(move, with_devices("gpu:2"))
    here.move("start_move_out", move)
    here.move("finish_move", move)
    for _ in range(2):
        here.move(verb, move)
        (claim,) = here.state.claims_of(GUEST)
        assert claim.uuid == {"the old one": old, "the new one": new}[left].uuid
        assert sorted(here.allocated()) == devices


def test_host_that_restarts_during_an_evacuation_keeps_its_claim_until_it_is_done():
    """LP1764883: the source started while an evacuation was about to begin, and both hosts took the
    instance for theirs. LP2085975: a host that started during an evacuation asked the wrong host
    whether the disks were shared."""
    source, dest = agents()
    source.run(LARGE)
    source.audit()
    move = facts(EVACUATION)
    dest.claim_move(move, LARGE)
    for _ in range(3):
        source.start()  # its guest still runs, or runs again
        source.audit()
        assert (source.states(), dest.states()) == (["active"], ["incoming"])
    dest.start_domain(dest.move("finish_evacuation", move))
    source.start()  # the destination has the guest: a positive fact
    assert (source.states(), dest.states()) == ([], ["active"])
    assert dest.state.migrations[move.uuid].status == DONE
    # A domain that still runs here has no claim any more, and counts until it is removed.
    assert source.state.domain_usages[GUEST].memory_mb == LARGE.memory_mb
    source.world.destroy(GUEST)
    source.audit()
    assert (source.state.usage.memory_mb, dest.state.usage.memory_mb) == (0, LARGE.memory_mb)


def test_device_of_an_evacuated_guest_that_still_runs_is_not_given_out():
    """LP1764883, for the devices of a guest without a claim."""
    source, dest = agents(gpus=[GPU_0, GPU_1])
    source.run(with_devices("gpu:1"))
    move = facts(EVACUATION)
    dest.claim_move(move, with_devices("gpu:1"))
    dest.start_domain(dest.move("finish_evacuation", move))
    source.start()
    assert source.states() == []
    assert source.state.domain_usages[GUEST].occupancy.devices == {GPU_0}
    assert [device.address for device in source.build(with_devices("gpu:1"), OTHER).pci] == [GPU_1]
    with pytest.raises(RequestError):
        source.build(with_devices("gpu:1"), uid(700))


def test_evacuation_that_fails_after_the_source_is_back_leaves_the_guest_there():
    """LP1764883, for an evacuation that fails."""
    source, dest = agents()
    source.run()
    move = facts(EVACUATION)
    dest.claim_move(move)
    source.start()
    dest.move("drop_move_claim", move)
    source.audit()
    assert (source.states(), dest.states()) == (["active"], [])


def test_host_with_its_own_database_releases_an_evacuated_guest_only_on_a_call():
    """LP1764883: the source knows nothing of the destination, and absence is not evidence."""
    source, dest = agents(shared=False)
    source.run()
    move = facts(EVACUATION)
    dest.claim_move(move)
    dest.start_domain(dest.move("finish_evacuation", move))
    source.world.destroy(GUEST)
    source.start()
    (claim,) = source.state.claims_of(GUEST)
    assert claim.suspect is not None
    source.move("drop_move_claim_at_source", move)
    assert source.states() == []


def test_every_evacuated_guest_counts_whatever_its_task_state():
    """LP1791075: only an instance in task "rebuilding" counted as evacuated to this host. The task
    changes while the guest is spawned, and the next guest got CPUs that the first had."""
    dest = Agent(2)
    tasks = ["rebuilding", "rebuild_spawning", None]
    for number, task in enumerate(tasks):
        guest = uid(700 + number)
        dest.claim_move(facts(EVACUATION), pinned(2), guest)
        dest.update("error" if task is None else "active", task, guest)
        dest.audit()
    assert len(dest.allocated()) == 6
    with pytest.raises(RequestError):
        dest.claim_move(facts(EVACUATION), pinned(2))
    assert dest.state.usage.pcpus == 6
