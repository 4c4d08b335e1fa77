"""A claim that fails leaves nothing behind.

Nova added usage in memory first, then wrote it, reported it to Placement, and wrote it to the
instance: a failure left behind what had been done before it.

Here a decision has no effect by itself. One transaction writes the claim completely or not at all,
and from then on it counts. Nothing else can fail before the answer.
"""

import pytest

from rtagent import errors
from rtagent.claims import abort_instance_claim, instance_claim
from rtagent.lifecycle.moves import move_claim
from rtagent.model.decision import Refused
from rtagent.model.request import BuildRequest, Flavor, Instance
from rtagent.model.topology import Topology
from rtagent.pci.allocations import device_allocations
from rtagent.placement import tree
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.provider import Ownership
from rtagent.placement.schedule import GATHER
from rtagent.state.compute_node import compute_node
from rtagent.testing.placement import MemoryPlacement
from tests.support.agents import GUEST, LEASE, OTHER, Agent, agents, facts, pinned, with_devices
from tests.support.hosts import TOPOLOGY
from tests.support.pci_hosts import GPU_0, GPU_1, gpu

WANTED = pinned(2, "gpu:1", root_gb=1)
#: Only its memory does not fit.
TOO_LARGE = Flavor(
    vcpus=1, memory_mb=TOPOLOGY.memory_mb + 1, extra_specs={"pci_passthrough:alias": "gpu:1"}
)


def claims(here, move=None):
    """A call that claims a build, or the destination of a move. It may be repeated."""
    if move is None:
        build = BuildRequest(instance=Instance(uuid=GUEST, flavor=WANTED))
        call = here.next_call("instance_claim")
        return lambda: here.tracker.create(instance_claim, call, build)
    request, call = here.move_request(move, WANTED), here.next_call("resize_claim")
    return lambda: here.tracker.create(move_claim, call, request)


def mirrored(here, api) -> PlacementMirror:
    """A mirror of the host in Placement, whose turns the test makes."""
    return PlacementMirror(
        api,
        lambda: tree.build(here.state, disabled=False, hypervisor_up=True),
        Ownership(),
        here.clock,
        jitter=lambda: 1.0,
    )


def nothing_is_used(here) -> bool:
    """Whether nothing is used in memory, in the database and in the node's record, and everything
    can be claimed."""
    used = compute_node(here.state)
    quantities = (used["memory_mb_used"], used["vcpus_used"], used["local_gb_used"])
    here.run(WANTED, OTHER)
    here.release(here.state.claims_of(OTHER)[0])
    free = not here.allocated() and not here.stored.claims and not here.state.claims
    return free and quantities == (0, 0, 0)


@pytest.mark.parametrize("move", [None, facts()])
@pytest.mark.parametrize("error", [errors.StoreUnavailable, errors.ChangeRejected])
def test_claim_that_cannot_be_written_uses_nothing(move, error):
    """In Nova the save, or the request to Placement before it, raised: there was no claim to abort,
    and memory, CPUs and devices were used until the next audit."""
    here = Agent(gpus=[GPU_0])
    claim = claims(here, move)
    here.store.fail(error, times=2)  # a rejected batch is committed again, call by call
    with pytest.raises((errors.StoreUnavailable, errors.InvalidRequest)):
        claim()
    here.store.heal()
    assert here.tracker.recover()
    assert not here.state.migrations
    assert nothing_is_used(here)
    assert claim().pci[0].address == GPU_0  # the same call again


@pytest.mark.parametrize("move", [None, facts()])
def test_claim_whose_answer_is_lost_exists_once(move):
    """The database has written the claim, but the connection is lost."""
    here = Agent(gpus=[GPU_0])
    claim = claims(here, move)
    here.store.fail(errors.CommitUnknown, after=True)
    held = claim()
    assert claim().uuid == held.uuid
    assert here.stored.usage == here.state.usage == held.usage


def test_unavailable_placement_fails_no_claim():
    """In Nova a claim waited for Placement under the lock, and failed with it. Here Placement is a
    mirror, which catches up by itself."""
    here, api = Agent(gpus=[GPU_0]), MemoryPlacement()
    mirror = mirrored(here, api)
    here.tracker.listen(lambda *_: mirror.wake())
    api.failure = errors.PlacementUnavailable("down")
    claim = here.run(WANTED)
    here.clock.advance(GATHER)
    mirror.turn()
    assert mirror.seconds_behind > 0
    assert here.states() == ["active"] and here.stored.usage == claim.usage
    api.failure = None
    here.clock.advance(3600)
    assert mirror.turn()
    assert api.shown(here.node.uuid)["inventories"]["MEMORY_MB"]["total"] == TOPOLOGY.memory_mb


@pytest.mark.parametrize("error", [errors.StoreUnavailable, errors.CommitUnknown])
def test_failed_write_of_an_audit_is_repeated_by_the_next_audit(error):
    """LP1834712: a save failed, but its content was remembered as saved. The next audits saw no
    difference, the database never got it, and schedulers failed on the fields that were null
    (LP1834691, LP1834694)."""
    here = Agent()
    before = here.state.topology
    here.world.topology = Topology(cpus=before.cpus, memory_mb=32768, disk_mb=1, cells=before.cells)
    here.world.disk_available_least = 7
    here.store.fail(error)
    assert not here.audit().good
    assert here.state.topology == before == here.stored.topology
    assert here.tracker.recover()
    assert here.audit().good
    for state in (here.state, here.stored):
        assert (state.topology.memory_mb, state.disk_available_least) == (32768, 7)
        assert compute_node(state)["free_disk_gb"] is not None


@pytest.mark.parametrize("after", [False, True])
def test_failed_creation_of_the_node_record_is_repeated(after):
    """LP1839674: the creation of the record failed, the node was cached in memory all the same, and
    the creation was never repeated."""
    here = Agent()
    here.disk.nodes.clear()
    fails = [errors.StoreUnavailable]

    def failing(store):
        if fails:
            store.fail(fails.pop(), on=("enroll",), after=after)

    with pytest.raises(errors.StoreUnavailable):
        here.start(prepare=failing)
    here.start(prepare=failing)
    assert here.stored.node == here.node
    here.run()
    assert here.stored.usage == here.state.usage


@pytest.mark.parametrize("move", [None, facts()])
def test_refused_claim_takes_no_device(move):
    """LP1549984: devices were taken while the claim was being tested, and stayed taken if another
    resource did not fit."""
    here = Agent(gpus=[GPU_0])
    before = here.state
    with pytest.raises(errors.ComputeResourcesUnavailable) as refused:
        here.claim_move(move, TOO_LARGE) if move else here.build(TOO_LARGE)
    (reason,) = refused.value.kwargs["reasons"]
    assert reason["resource"] == "MEMORY_MB"
    assert here.state is before and not here.state.migrations
    assert here.build(WANTED).pci[0].address == GPU_0


def test_test_claim_takes_no_device():
    """LP1549984, for a claim that is only tested."""
    here = Agent(gpus=[GPU_0])
    before = here.state
    for flavor in (WANTED, TOO_LARGE, WANTED):
        answer = here.tracker.test_claim(move_claim, here.move_request(facts(), flavor))
        assert isinstance(answer, Refused) is (flavor is TOO_LARGE)
    assert here.state is before


def test_devices_of_a_failed_build_are_not_given_to_the_rescheduled_guest():
    """LP1860555: a build failed after it had got its devices, and was scheduled to another host.
    The aborted claim had worked on a copy: the instance kept the first host's device, and its
    domain was defined with both devices."""
    first, second = agents(gpus=[GPU_0])
    second.world.unplug(GPU_0)
    second.world.plug(gpu(GPU_1))
    second.audit()
    failed = first.build(with_devices("gpu:1"))
    first.tracker.execute(
        abort_instance_claim, first.next_call("abort_instance_claim"), failed.uuid
    )
    claim = second.run(with_devices("gpu:1"))
    assert [device.address for device in claim.pci] == [GPU_1]
    assert (first.allocated(), second.allocated()) == ({}, {GPU_1: GUEST})
    assert device_allocations(first.state).state(GPU_0).state == "available"
    back = first.claim_move(facts(), with_devices("gpu:1"))  # it may move to the first host later
    assert [device.address for device in back.pci] == [GPU_0]


@pytest.mark.parametrize("lapsed", [False, True])
def test_instance_that_is_being_built_does_not_count_as_deleted(lapsed):
    """LP1729371: an instance that was being scheduled to this host was not in the database's
    answer, so its allocation was removed as that of a deleted instance.

    Absence is not evidence: the claim of a build ends by a call, or by a lease that has lapsed
    before a later, complete observation shows no domain.
    """
    here, api = Agent(gpus=[GPU_0]), MemoryPlacement()
    mirror = mirrored(here, api)
    mirror.wake()
    here.clock.advance(GATHER)
    assert mirror.turn()
    api.allocate(here.node.uuid, GUEST, {"MEMORY_MB": 512})
    claim = here.build(with_devices("gpu:1"))
    for _ in range(5):
        here.audit()
        mirror.wake()
        here.clock.advance(LEASE / 10)
        assert mirror.turn()
    assert here.states() == ["building"]
    if lapsed:
        here.clock.advance(LEASE)
        here.audit_while("list", lambda: here.start_domain(claim))  # at the last moment
    else:
        here.start_domain(claim)
        here.audit()
    assert (here.states(), here.allocated()) == (["active"], {GPU_0: GUEST})
    assert GUEST in api.shown(here.node.uuid)["allocations"]
