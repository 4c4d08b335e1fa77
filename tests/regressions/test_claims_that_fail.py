"""Claims that were not answered with success, and what was left of them.

Usage was added in memory first, and then written, told to Placement, and written to the instance:
whatever of that failed left behind what had been done before it.

A claim is decided without a trace; then one transaction writes it, wholly or not at all; it counts
from then on. Nothing else can fail before it is answered.
"""

from __future__ import annotations

import pytest

from rtagent.compute_node import compute_node
from rtagent.errors import (
    ChangeRejected,
    CommitUnknown,
    ComputeResourcesUnavailable,
    InvalidRequest,
    PlacementUnavailable,
    StoreUnavailable,
)
from rtagent.model.decision import Refused
from rtagent.model.flavor import Flavor
from rtagent.model.instance import Instance
from rtagent.model.request import BuildRequest
from rtagent.model.topology import Topology
from rtagent.pci.holds import holdings
from rtagent.placement import tree
from rtagent.placement.agenda import GATHER
from rtagent.placement.memory import MemoryPlacement
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.ownership import MemoryOwnership
from tests.builders import TOPOLOGY, uid
from tests.moving_agents import (
    GUEST,
    LEASE,
    OTHER,
    Agent,
    neighbours,
    pinned,
    told,
    with_devices,
)
from tests.pci_hosts import GPU_0, GPU_1, gpu

WANTED = pinned(2, "gpu:1", root_gb=1)
#: Of which nothing but the memory is too much.
TOO_LARGE = Flavor(
    vcpus=1,
    memory_mb=TOPOLOGY.memory_mb + 1,
    extra_specs={"pci_passthrough:alias": "gpu:1"},
)


def claims(here, move=None):
    """A build, or a guest that arrives; twice the same call, if it is used twice."""
    if move is None:
        build = BuildRequest(claim_uuid=uid(), instance=Instance(uuid=GUEST, flavor=WANTED))
        call = here.asked("instance_claim")
        return lambda: here.tracker.instance_claim(build, call)
    request, call = here.expecting(move, WANTED), here.asked("resize_claim")
    return lambda: here.tracker.move_claim(request, call)


def mirrored(here, api) -> PlacementMirror:
    """What shows the host to Placement, by hand."""
    return PlacementMirror(
        api,
        lambda: tree.build(here.state, disabled=False, hypervisor_up=True),
        MemoryOwnership(),
        here.clock,
        jitter=lambda: 1.0,
    )


def nothing_is_held(here) -> bool:
    """In memory, in the database, and for anybody who asks."""
    used = compute_node(here.state)
    amounts = (used["memory_mb_used"], used["vcpus_used"], used["local_gb_used"])
    here.runs(WANTED, OTHER)  # it can be had
    here.releases(here.state.claims_of(OTHER)[0])
    free = not here.holders() and not here.kept.claims and not here.state.claims
    return free and amounts == (0, 0, 0)


@pytest.mark.parametrize("move", [None, told()])
@pytest.mark.parametrize("error", [StoreUnavailable, ChangeRejected])
def test_a_claim_that_could_not_be_written(move, error):
    """The save, or the request to Placement that came before it, raised: there was no claim for
    anybody to abort, and 1,024 MB, two CPUs and the devices were used until the next audit."""
    here = Agent(gpus=[GPU_0])
    claim = claims(here, move)
    here.store.fail(error, times=2)  # a batch that is rejected is tried again, call by call
    with pytest.raises((StoreUnavailable, InvalidRequest)):
        claim()
    here.store.heal()
    assert here.tracker.recover()
    assert not here.state.migrations
    assert nothing_is_held(here)
    assert claim().pci[0].address == GPU_0  # the same call again


@pytest.mark.parametrize("move", [None, told()])
def test_a_claim_whose_answer_was_lost_is_there_once(move):
    """As above, and the database had taken it."""
    here = Agent(gpus=[GPU_0])
    claim = claims(here, move)
    here.store.fail(CommitUnknown, after=True)
    held = claim()
    assert claim().uuid == held.uuid
    assert here.kept.usage == here.state.usage == held.usage


def test_placement_that_is_away_fails_no_claim():
    """A claim waited for Placement under the lock, and failed with it. It is a mirror, which
    catches up by itself."""
    here, api = Agent(gpus=[GPU_0]), MemoryPlacement()
    mirror = mirrored(here, api)
    here.tracker.listen(lambda *_: mirror.wake())
    api.failure = PlacementUnavailable("down")
    claim = here.runs(WANTED)
    here.clock.advance(GATHER)
    mirror.turn()
    assert mirror.seconds_behind > 0
    assert here.states() == ["active"] and here.kept.usage == claim.usage
    api.failure = None
    here.clock.advance(3600)
    assert mirror.turn()
    assert api.shown(here.node.uuid)["inventories"]["MEMORY_MB"]["total"] == TOPOLOGY.memory_mb


@pytest.mark.parametrize("error", [StoreUnavailable, CommitUnknown])
def test_a_write_that_failed_is_made_again(error):
    """LP1834712: a save failed, and what was to be saved was remembered as what had been saved.
    Nothing was different from it at the next audits, the database never had it, and schedulers fell
    over the fields that were null (LP1834691, LP1834694)."""
    here = Agent()
    before = here.state.topology
    here.world.topology = Topology(cpus=before.cpus, memory_mb=32768, disk_mb=1, cells=before.cells)
    here.world.disk_available_least = 7
    here.store.fail(error)
    assert not here.audit().good
    assert here.state.topology == before == here.kept.topology
    assert here.tracker.recover()
    assert here.audit().good
    for state in (here.state, here.kept):
        assert (state.topology.memory_mb, state.disk_available_least) == (32768, 7)
        assert compute_node(state)["free_disk_gb"] is not None


@pytest.mark.parametrize("after", [False, True])
def test_a_node_whose_record_could_not_be_made(after):
    """LP1839674: the creation of a record failed, the node was known in memory from then on, and
    nobody tried to create it a second time."""
    here = Agent()
    here.disk.nodes.clear()
    fails = [StoreUnavailable]

    def failing(store):
        if fails:
            store.fail(fails.pop(), on=("enroll",), after=after)

    with pytest.raises(StoreUnavailable):
        here.start(prepare=failing)
    here.start(prepare=failing)
    assert here.kept.node == here.node
    here.runs()
    assert here.kept.usage == here.state.usage


@pytest.mark.parametrize("move", [None, told()])
def test_a_claim_that_is_refused_takes_no_device(move):
    """LP1549984: devices were taken while the claim was being tested, and if then something else
    was short they stayed taken."""
    here = Agent(gpus=[GPU_0])
    before = here.state
    with pytest.raises(ComputeResourcesUnavailable) as refused:
        here.expects(move, TOO_LARGE) if move else here.builds(TOO_LARGE)
    (reason,) = refused.value.kwargs["reasons"]
    assert reason["resource"] == "MEMORY_MB"
    assert here.state is before and not here.state.migrations
    assert here.builds(WANTED).pci[0].address == GPU_0


def test_a_test_takes_no_device_either():
    """LP1549984: to ask is not to take."""
    here = Agent(gpus=[GPU_0])
    before = here.state
    for flavor in (WANTED, TOO_LARGE, WANTED):
        answer = here.tracker.test_claim(here.expecting(told(), flavor))
        assert isinstance(answer, Refused) is (flavor is TOO_LARGE)
    assert here.state is before


def test_devices_of_a_host_where_the_build_failed_are_no_part_of_the_guest():
    """LP1860555: a build failed after it had its devices, and was scheduled to another host. The
    claim that was aborted had worked on a copy: the first host's device stayed in the instance
    beside the second's, and its domain was defined with both."""
    first, second = neighbours(gpus=[GPU_0])
    second.world.unplug(GPU_0)
    second.world.plug(gpu(GPU_1))
    second.audit()
    failed = first.builds(with_devices("gpu:1"))
    first.tracker.abort_instance_claim(failed.uuid, first.asked("abort_instance_claim"))
    claim = second.runs(with_devices("gpu:1"))
    assert [device.address for device in claim.pci] == [GPU_1]
    assert (first.holders(), second.holders()) == ({}, {GPU_1: GUEST})
    assert holdings(first.state).state(GPU_0).state == "available"
    back = first.expects(told(), with_devices("gpu:1"))  # it may come to the first one later
    assert [device.address for device in back.pci] == [GPU_0]


@pytest.mark.parametrize("lapsed", [False, True])
def test_what_is_still_being_created_is_not_taken_for_deleted(lapsed):
    """LP1729371: an instance that was on its way to this host was not in the database's answer, and
    its allocation was removed as that of one that had been deleted.

    That something is not there is no proof that it is gone: a claim of a build ends by a call, or
    by a lease that has lapsed before a later, whole look shows no domain.
    """
    here, api = Agent(gpus=[GPU_0]), MemoryPlacement()
    mirror = mirrored(here, api)
    mirror.wake()
    here.clock.advance(GATHER)
    assert mirror.turn()
    api.allocate(here.node.uuid, GUEST, {"MEMORY_MB": 512})
    claim = here.builds(with_devices("gpu:1"))
    for _ in range(5):
        here.audit()
        mirror.wake()
        here.clock.advance(LEASE / 10)
        assert mirror.turn()
    assert here.states() == ["building"]
    if lapsed:
        here.clock.advance(LEASE)
        here.audit_while("list", lambda: here.boots(claim))  # at the last moment
    else:
        here.boots(claim)
        here.audit()
    assert (here.states(), here.holders()) == (["active"], {GPU_0: GUEST})
    assert GUEST in api.shown(here.node.uuid)["allocations"]
