"""The thread of Placement: strict claims, rounds of the mirror, and audits."""

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from msgspec.structs import replace

from rtagent.embedded import SystemClock
from rtagent.errors import ClaimExpired, PlacementError
from rtagent.model.consumers import DeletionReason
from rtagent.rpc.serving import THREADS
from rtagent.service.allocation_calls import WAITING, AllocationCalls
from rtagent.service.context import Granting, Reloaded
from rtagent.service.heartbeat import Heartbeat
from rtagent.service.placement import NoPlacement, Placement
from rtagent.testing.placement import MemoryPlacement
from tests.support.allocating_agents import manage
from tests.support.hosts import call
from tests.support.trackers import claim, release

#: Seconds; no test waits for so long.
LONG = 60


class HaltingPlacement(MemoryPlacement):
    """Halts before each request of one name while `go` is not set. :ivar halted: it has halted."""

    def __init__(self) -> None:
        super().__init__()
        self.name, self.halted, self.go = "", threading.Event(), threading.Event()

    def halt(self, name: str) -> None:
        self.halted.clear()
        self.go.clear()
        self.name = name

    def before(self, name, uuid=None):
        if name == self.name:
            self.halted.set()
            assert self.go.wait(LONG)
        super().before(name, uuid)


class Waiting:
    """A node with ``strict``. Nothing is published before `publish`."""

    def __init__(self, world, state_path) -> None:
        world.node.auditor.run("start")
        self.tracker, self.admission, self.bus = world.tracker, world.admission, world.bus
        self.tracker.creation.suspend(None)
        manage(self.tracker, "strict")
        now = world.settings.current
        options = replace(now.placement, manage_allocations="strict", allocation_timeout=LONG)
        default = replace(now.default, state_path=str(state_path))
        world.settings.current = replace(now, placement=options, default=default)
        context = replace(world.context, clock=SystemClock())
        self.api = HaltingPlacement()
        heartbeat = Heartbeat(context, world.registry, world.tracker)
        self.placement = Placement(
            context, self.api, world.node, world.store, world.admission, heartbeat
        )
        self.pool = ThreadPoolExecutor(THREADS)

    def confirm(self, made):
        """Wait for the allocation of a claim, in a thread."""
        return self.pool.submit(self.placement.confirm, made, call())

    def publish(self) -> None:
        self.admission.open()
        self.bus.publish(Granting())


@pytest.fixture
def waiting(world, tmp_path):
    waiting = Waiting(world, tmp_path)
    waiting.placement.start()
    yield waiting
    waiting.api.go.set()
    waiting.publish()
    waiting.pool.shutdown()
    assert waiting.placement.stop()


def test_a_claim_that_has_ended_meanwhile_is_not_answered(waiting):
    made = claim(waiting.tracker)
    answer = waiting.confirm(made)
    release(waiting.tracker, made.uuid)
    waiting.publish()
    with pytest.raises(ClaimExpired):
        answer.result(LONG)


def test_a_burst_of_claims_is_answered_when_the_allocation_is_written(waiting):
    made = claim(waiting.tracker)
    answers = [waiting.confirm(made) for _ in range(THREADS)]
    assert THREADS > WAITING
    assert not any(answer.done() for answer in answers)
    waiting.publish()
    assert [answer.result(LONG) for answer in answers] == [None] * THREADS
    assert waiting.api.consumer(made.owner_id)["allocations"]


def test_a_strict_claim_waits_for_no_more_than_one_request_of_a_refresh(waiting):
    waiting.publish()
    waiting.placement.sync()
    waiting.api.halt("aggregates")
    waiting.bus.publish(Reloaded())
    assert waiting.api.halted.wait(LONG)
    before = len(waiting.api.requests)
    answer = waiting.confirm(claim(waiting.tracker))
    waiting.api.go.set()
    answer.result(LONG)
    waiting.placement.sync()
    requests = waiting.api.requests[before:]
    assert requests[:2] == ["aggregates", "put_consumer"]
    assert "inventories" in requests[2:]


def test_a_turn_makes_one_of_the_calls_that_wait(world):
    woken, answers, pool = threading.Semaphore(0), [], ThreadPoolExecutor()

    class Busy(MemoryPlacement):
        def before(self, name, uuid=None):
            if name == "tree" and len(answers) < 3:
                ask()
            super().before(name, uuid)

    api = Busy()
    calls = AllocationCalls(world.context, api, world.node, woken.release)

    def ask():
        answers.append(pool.submit(calls.delete, str(uuid4()), DeletionReason.EVACUATED))
        assert woken.acquire(timeout=LONG)

    ask()
    for turns in (1, 2, 3):
        calls.turn()
        assert api.requests.count("tree") == turns
    assert [answer.result(LONG) for answer in answers] == [None] * 3
    pool.shutdown()


def test_a_stop_does_not_wait_for_a_hanging_request(waiting):
    waiting.api.halt("tree")
    waiting.publish()
    assert waiting.api.halted.wait(LONG)
    assert not waiting.placement.stop(timeout=0)


def test_without_placement_calls_that_need_it_are_refused_and_others_wait_for_nothing():
    nothing = NoPlacement()
    for refused in (nothing.sync, lambda: nothing.delete("uuid", DeletionReason.MIGRATED)):
        with pytest.raises(PlacementError, match="auth_type"):
            refused()
    assert nothing.stop() and not nothing.loops
