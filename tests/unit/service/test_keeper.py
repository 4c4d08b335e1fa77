"""The tracker comes back with its store, and its policy is that of the configuration."""

import pytest

from rtagent.errors import StoreUnavailable
from rtagent.model.policy import Policy
from rtagent.service.keeper import Keeper
from tests.builders import call, request


@pytest.fixture
def told():
    return []


@pytest.fixture
def keeper(world, told):
    world.auditor.run("start")
    world.gate.open()
    return Keeper(
        world.tracker,
        Policy(),
        world.notes,
        returned=lambda: told.append("returned"),
        changed=lambda: told.append(world.tracker.snapshot().policy),
        fenced=told.append,
    )


def down(world) -> None:
    """The store fails, and a call has noticed."""
    world.store.fail(StoreUnavailable, times=None, on=("commit", "reload"))
    with pytest.raises(StoreUnavailable):
        world.tracker.instance_claim(request(), call())


def test_it_brings_the_tracker_back_with_back_off(world, keeper, told):
    down(world)
    pauses = [keeper.turn().at_least for _ in range(3)]
    assert (pauses, told) == ([0.25, 0.5, 1.0], [])

    world.store.heal()
    keeper.turn()

    assert told == ["returned"]
    assert world.tracker.instance_claim(request(), call())


def test_the_policy_is_kept_and_written_only_when_it_differs(world, keeper, told):
    keeper.policy = Policy(reserved_memory_mb=512)
    before = world.store.calls["commit"]

    keeper.turn()
    keeper.turn()

    assert world.tracker.snapshot().policy.reserved_memory_mb == 512
    assert world.store.calls["commit"] == before + 1
    assert told == [keeper.policy], "told of once, when it is in force"


def test_the_nodes_row_is_written_once_by_each_process(world, keeper):
    """Its reserves may be those of the configuration before the restart."""
    world.store.fail(StoreUnavailable)
    keeper.turn()  # in vain
    keeper.turn()  # comes back
    before = world.store.calls["commit"]

    keeper.turn()
    keeper.turn()

    assert world.store.calls["commit"] == before + 1


def test_a_policy_that_could_not_be_written_is_tried_again(world, keeper, told):
    keeper.policy = Policy(reserved_memory_mb=512)
    world.store.fail(StoreUnavailable)
    keeper.turn()
    assert world.tracker.snapshot().policy.reserved_memory_mb == 0
    assert told == []

    keeper.turn()  # comes back
    keeper.turn()

    assert told == ["returned", keeper.policy]
    assert world.tracker.snapshot().policy.reserved_memory_mb == 512


def test_a_newer_writer_is_told_of(world, keeper, told):
    world.enroll()
    keeper.policy = Policy(reserved_memory_mb=512)

    keeper.turn()
    keeper.turn()

    assert [str(error) for error in told] == [str(world.tracker.fault)]
    assert "a newer writer holds epoch 2, ours is 1" in str(told[0])
    assert "see that no other serves it before this one is started again" in str(told[0])
