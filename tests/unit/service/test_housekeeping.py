"""Records are purged after their retention."""

import pytest
from msgspec.structs import replace

from rtagent.claims import instance_claim, release_claim
from rtagent.errors import StoreUnavailable
from rtagent.service.housekeeping import INTERVAL, RETRY, Housekeeping
from rtagent.service.loop import every
from tests.support.hosts import NODE, call, request


@pytest.fixture
def housekeeping(world):
    now = world.settings.current
    world.settings.current = replace(now, claims=replace(now.claims, operation_retention=100))
    return Housekeeping(world.context, world.store, world.tracker)


def test_operations_are_purged_after_their_retention(world, housekeeping):
    world.auditor.run("start")
    world.admission.open()
    asked = call()
    claim = world.tracker.create(instance_claim, asked, request())
    world.tracker.execute(release_claim, call("release_claim"), claim.uuid)

    housekeeping.turn()  # notes what there is
    world.clock.advance(100)
    housekeeping.turn()
    assert world.store.operation(NODE.uuid, asked.operation_id) is not None

    world.clock.advance(1)
    assert housekeeping.turn() == every(INTERVAL)
    assert world.store.operation(NODE.uuid, asked.operation_id) is None


def test_purge_is_postponed_while_the_store_is_down(world, housekeeping):
    world.store.fail(StoreUnavailable, on=("purge",))

    assert housekeeping.turn() == every(RETRY)
