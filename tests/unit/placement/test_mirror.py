"""The mirror's rounds, by a clock that moves when it is told to; its thread, by its own signals."""

import math
import threading

import pytest
from msgspec.structs import replace
from oslo_context import context

from rtagent.errors import PlacementError, PlacementUnavailable
from rtagent.model.change import Change
from rtagent.placement import tree as trees
from rtagent.placement.agenda import FIRST_RETRY, GATHER
from rtagent.placement.memory import MemoryPlacement
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.ownership import MemoryOwnership
from rtagent.ports import Silence
from tests.builders import NOON, TOPOLOGY, ManualClock
from tests.unit.placement.values import ROOT, claim, state


class Heard(Silence):
    """Remembers what the mirror says."""

    def __init__(self):
        self.healths, self.sentences = [], []

    def health(self, part, status, output=""):
        self.healths.append((part, status, output))

    def said(self, level, sentence):
        self.sentences.append((level, sentence))


class World:
    """A mirror of `state`, which a test replaces."""

    def __init__(self, **options):
        self.state, self.disabled = state(), False
        self.api, self.clock, self.heard = MemoryPlacement(), ManualClock(), Heard()
        self.mirror = PlacementMirror(
            self.api,
            self.wanted,
            MemoryOwnership(),
            self.clock,
            self.heard,
            jitter=lambda: 1.0,
            **options,
        )

    def wanted(self):
        return trees.build(self.state, self.disabled, hypervisor_up=True)

    def grow(self, memory_mb=1000):
        """Another host, one revision on."""
        self.state = replace(
            self.state,
            revision=self.state.revision + 1,
            topology=replace(TOPOLOGY, memory_mb=memory_mb),
        )
        self.mirror.wake()

    def turn(self, after=GATHER):
        self.clock.advance(after)
        return self.mirror.turn()

    def requests(self):
        told = list(self.api.requests)
        self.api.requests.clear()
        return told


@pytest.fixture
def world():
    world = World()
    world.mirror.wake()
    assert world.turn()
    world.requests()
    return world


def test_nothing_is_done_until_it_is_woken():
    assert not World().turn(after=1e6)


def test_it_mirrors_the_state_of_the_moment(world):
    world.grow(1000)
    world.grow(2000)
    assert world.turn()
    assert world.requests() == ["put_inventories"]
    assert world.api.shown(ROOT)["inventories"]["MEMORY_MB"]["total"] == 2000
    assert world.mirror.revision == world.state.revision
    assert not world.turn(after=1e6)


def test_a_host_that_is_not_known_is_left_as_it_is(world):
    world.state = replace(world.state, topology=None)
    world.mirror.wake()
    assert world.turn()
    assert world.requests() == []


def test_changes_gather(world):
    world.grow()
    assert not world.turn(after=GATHER / 2)
    assert world.turn(after=GATHER / 2)


def test_only_what_concerns_placement_wakes_it(world):
    world.mirror.listener(world.state, [Change(cause="t", at=NOON, puts=(claim(1, 1, 1),))])
    assert world.mirror.due_in == math.inf
    world.mirror.listener(world.state, [Change(cause="t", at=NOON, topology=TOPOLOGY)])
    assert world.mirror.due_in == GATHER


def test_an_idle_mirror_asks_nothing_but_at_its_refresh():
    world = World(refresh=lambda: 300.0)
    world.mirror.wake()
    world.turn()
    world.requests()
    assert not world.turn(after=299)
    assert world.turn(after=1)
    assert world.requests() == ["provider", "traits", "inventories"]
    assert world.mirror.seconds_behind == 0


def test_what_others_did_is_found_at_the_refresh():
    world = World(refresh=lambda: 300.0)
    world.mirror.wake()
    world.turn()
    world.api.meddle(ROOT, inventories={})
    world.turn(after=300)
    assert world.api.shown(ROOT)["inventories"]


def test_the_refresh_is_asked_for_anew():
    seconds = [0.0]
    world = World(refresh=lambda: seconds[0])
    world.mirror.wake()
    world.turn()
    assert world.mirror.due_in == math.inf
    seconds[0] = 50.0
    assert world.mirror.due_in == 50.0


def test_forgetting_makes_it_read_again(world):
    world.mirror.forget()
    world.turn()
    assert world.requests() == ["provider", "traits", "inventories"]


def test_an_outage_is_reported_and_repeated_with_back_off(world):
    world.api.failure = PlacementUnavailable("down for maintenance")
    world.grow()
    world.turn()
    assert world.mirror.error is world.api.failure
    assert world.mirror.due_in == FIRST_RETRY
    assert world.turn(after=FIRST_RETRY)
    assert world.mirror.due_in == 2 * FIRST_RETRY
    assert world.mirror.seconds_behind == GATHER + FIRST_RETRY
    assert world.mirror.revision < world.state.revision
    part, status, output = world.heard.healths[-1]
    assert (part, status) == ("placement", "warn")
    assert "2 s behind, claims go on: down for maintenance" in output


def test_it_converges_when_placement_is_back(world):
    world.api.failure = PlacementUnavailable("down")
    world.grow(1000)
    world.turn()
    world.grow(2000)
    world.api.failure = None
    assert world.turn(after=FIRST_RETRY)
    assert (world.mirror.error, world.mirror.seconds_behind) == (None, 0)
    assert world.mirror.revision == world.state.revision
    assert world.api.shown(ROOT)["inventories"]["MEMORY_MB"]["total"] == 2000
    assert world.heard.healths[-1] == ("placement", "pass", "")


def test_what_needs_an_operator_is_a_failure_and_is_tried_again(world):
    world.api.failures["put_inventories"] = PlacementError("not like this")
    world.grow()
    world.turn()
    assert world.heard.healths[-1][1] == "fail"
    del world.api.failures["put_inventories"]
    world.turn(after=FIRST_RETRY)
    assert world.heard.healths[-1][1] == "pass"


def test_an_inventory_in_use_is_a_warning(world):
    world.api.allocate(ROOT, "c", {"DISK_GB": 1})
    world.state = replace(world.state, topology=replace(TOPOLOGY, disk_mb=0))
    world.mirror.wake()
    world.turn()
    assert world.heard.healths[-1][1] == "warn"
    assert "in use" in world.heard.healths[-1][2]


def test_another_trouble_of_the_same_weight_is_said(world):
    world.api.failures["put_inventories"] = PlacementError("one", code="a")
    world.grow()
    world.turn()
    world.turn(after=FIRST_RETRY)
    assert world.heard.sentences == []  # health has told it
    world.api.failures["put_inventories"] = PlacementError("two", code="b")
    world.turn(after=2 * FIRST_RETRY)
    world.turn(after=4 * FIRST_RETRY)
    assert [("two" in sentence) for _, sentence in world.heard.sentences] == [True]


def test_traits_that_placement_does_not_know_are_a_warning_and_not_repeated(world):
    traits = frozenset({"HW_NOT_INVENTED"})
    world.state = replace(world.state, topology=replace(TOPOLOGY, traits=traits))
    world.mirror.wake()
    world.turn()
    assert world.heard.healths[-1][1] == "warn"
    assert "HW_NOT_INVENTED" in world.heard.healths[-1][2]
    assert (world.mirror.error, world.mirror.due_in) == (None, math.inf)


def test_each_round_has_one_request_id(world):
    class Noting(MemoryPlacement):
        def __init__(self):
            super().__init__()
            self.ids = []

        def ensure_traits(self, names):
            self.note()
            return super().ensure_traits(names)

        def provider(self, uuid):
            self.note()
            return super().provider(uuid)

        def note(self):
            current = context.get_current()
            self.ids.append(current and current.request_id)

    api, clock = Noting(), ManualClock()
    mirror = PlacementMirror(api, world.wanted, MemoryOwnership(), clock)
    for _ in range(2):
        mirror.forget()
        clock.advance(GATHER)
        mirror.turn()
    first, second, third = api.ids
    assert first == second != third


# -- with its thread ------------------------------------------------------------------------------


@pytest.fixture
def running():
    world = World()
    world.mirror.start()
    world.mirror.sync_now(timeout=60)
    world.requests()
    yield world
    assert world.mirror.stop(timeout=60)


def test_to_sync_now_waits_for_no_pause(running):
    running.grow()
    running.mirror.sync_now(timeout=60)  # the clock stands still
    assert running.mirror.revision == running.state.revision


def test_to_sync_now_asks_nothing_that_is_known_unless_it_is_to_be_read_anew(running):
    running.mirror.sync_now(timeout=60)
    assert running.requests() == []
    running.mirror.sync_now(timeout=60, anew=True)
    assert running.requests()


def test_to_sync_now_raises_what_is_wrong(running):
    running.api.failure = PlacementUnavailable("down")
    running.grow()
    with pytest.raises(PlacementUnavailable, match="down"):
        running.mirror.sync_now(timeout=60)
    with pytest.raises(PlacementUnavailable, match="down"):
        running.mirror.sync_now(timeout=60)  # no back-off either


def test_to_sync_now_takes_no_longer_than_it_may():
    with pytest.raises(PlacementUnavailable, match=r"0\.01 s"):
        World().mirror.sync_now(timeout=0.01)  # nobody turns it


def test_to_wait_for_a_revision_that_is_there(running):
    assert running.mirror.wait_synced(running.state.revision, timeout=60)
    assert not running.mirror.wait_synced(running.state.revision + 1, timeout=0.01)


def test_a_defect_is_reported_and_the_mirror_goes_on(running):
    running.state = None
    with pytest.raises(PlacementError, match="AttributeError"):
        running.mirror.sync_now(timeout=60)
    assert any("Traceback" in sentence for _, sentence in running.heard.sentences)
    running.state = state(revision=5)
    running.mirror.sync_now(timeout=60)
    assert running.mirror.revision == 5


def test_it_stops_while_placement_hangs():
    class Hanging(MemoryPlacement):
        def __init__(self):
            super().__init__()
            self.asked, self.answer = threading.Event(), threading.Event()

        def provider(self, uuid):
            self.asked.set()
            self.answer.wait(60)
            return super().provider(uuid)

    api = Hanging()
    mirror = PlacementMirror(api, World().wanted, MemoryOwnership(), ManualClock())
    mirror.start()
    assert api.asked.wait(60)
    mirror.wake()  # nobody waits for Placement
    assert not mirror.stop(timeout=0.01)
    api.answer.set()
    assert mirror.stop(timeout=60)
