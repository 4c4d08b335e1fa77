"""Calls that wait for the allocation of their claim."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from rtagent.embedded import SystemClock
from rtagent.errors import ClaimExpired
from rtagent.placement.memory import MemoryPlacement
from rtagent.rpc.in_flight import THREADS
from rtagent.service.allocation_writes import WAITING, AllocationWrites
from tests.support.allocation_outboxes import manage, prepare
from tests.support.hosts import call
from tests.support.trackers import claim, release

#: Seconds; no test waits for so long.
LONG = 60


class Waiting:
    """A node with ``strict``. Placement has no inventories before `publish`."""

    def __init__(self, world) -> None:
        world.node.auditor.run("start")
        self.tracker = world.tracker
        self.tracker.suspend_creation(None)
        manage(self.tracker, "strict")
        now = world.settings.current
        options = replace(now.placement, manage_allocations="strict", allocation_timeout=LONG)
        world.settings.current = replace(now, placement=options)
        context = replace(world.context, clock=SystemClock())
        self.api = prepare(MemoryPlacement())
        self.publisher = SimpleNamespace(
            pushing=False,
            first_round_ended=False,
            claims_complete=True,
            owns=lambda provider: False,
        )
        self.writes = AllocationWrites(context, self.api, world.node, self.publisher)
        self.pool = ThreadPoolExecutor(THREADS)

    def confirm(self, made):
        """Wait for the allocation of a claim, in a thread."""
        return self.pool.submit(self.writes.confirm, made, call())

    def publish(self) -> None:
        self.publisher.first_round_ended = True


@pytest.fixture
def waiting(world):
    waiting = Waiting(world)
    waiting.writes.start()
    yield waiting
    waiting.publish()
    waiting.pool.shutdown()
    assert waiting.writes.stop()


def test_a_claim_is_answered_when_its_allocation_is_written(waiting):
    made = claim(waiting.tracker)
    answers = [waiting.confirm(made) for _ in range(2)]
    assert not any(answer.done() for answer in answers)
    waiting.publish()
    assert [answer.result(LONG) for answer in answers] == [None, None]
    assert waiting.api.consumer(made.owner_id)["allocations"]


def test_a_claim_that_has_ended_meanwhile_is_not_answered(waiting):
    made = claim(waiting.tracker)
    answer = waiting.confirm(made)
    release(waiting.tracker, made.uuid)
    waiting.publish()
    with pytest.raises(ClaimExpired):
        answer.result(LONG)


def test_a_burst_of_claims_is_answered(waiting):
    made = claim(waiting.tracker)
    answers = [waiting.confirm(made) for _ in range(THREADS)]
    assert THREADS > WAITING
    waiting.publish()
    assert [answer.result(LONG) for answer in answers] == [None] * THREADS
