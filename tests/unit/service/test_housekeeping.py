"""What is kept for a time only is forgotten, later."""

from rtagent.errors import StoreUnavailable
from rtagent.service.housekeeping import INTERVAL, RETRY, Housekeeping
from rtagent.service.loop import every
from tests.builders import NODE, call, request


def housekeeping(world):
    return Housekeeping(
        world.store,
        NODE.uuid,
        world.clock,
        world.notes,
        retention=lambda: 100,
        forget_moves=world.tracker.forget_moves,
    )


def test_what_is_older_than_its_retention_goes(world):
    world.auditor.run("start")
    world.gate.open()
    asked = call()
    claim = world.tracker.instance_claim(request(), asked)
    world.tracker.release_claim(claim.uuid, call("release_claim"))
    keeping = housekeeping(world)

    world.clock.advance(100)
    keeping.turn()
    assert world.store.operation(NODE.uuid, asked.operation_id) is not None

    world.clock.advance(1)
    assert keeping.turn() == every(INTERVAL)
    assert world.store.operation(NODE.uuid, asked.operation_id) is None


def test_a_store_that_is_down_puts_it_off(world):
    world.store.fail(StoreUnavailable, on=("purge",))

    assert housekeeping(world).turn() == every(RETRY)
