"""Heartbeats, and whether the host is out of scheduling."""

import pytest

from rtagent.errors import StoreUnavailable, WriterFenced
from rtagent.service.loop import every
from rtagent.service.standing import Standing
from tests.builders import NOON


class Broken:
    """A registry whose database is down."""

    def heartbeat(self, host, now):
        raise StoreUnavailable("no route")


@pytest.fixture
def told():
    return []


def standing(world, told, registry=None):
    return Standing(
        registry or world.registry,
        "cn1",
        world.clock,
        world.notes,
        prove=world.tracker.prove,
        interval=lambda: 10.0,
        changed=lambda: told.append("changed"),
    )


def test_a_heartbeat_is_a_report(world, told):
    ours = standing(world, told)

    assert [ours.turn() for _ in range(2)] == [every(10.0)] * 2

    (service,) = ours.services()
    assert (service.host, service.report_count, service.last_seen_up) == ("cn1", 2, NOON)
    assert world.notes.parts["heartbeat"] == "pass"
    assert told == []


def test_an_idle_writer_notices_that_it_is_fenced(world, told):
    ours = standing(world, told)
    ours.turn()
    assert world.tracker.fault is None

    world.enroll()  # by another process
    ours.turn()

    assert isinstance(world.tracker.fault, WriterFenced)
    assert "holds epoch 2, ours is 1: stopping" in world.notes.parts["tracker"]


def test_a_heartbeat_that_fails_is_a_warning(world, told):
    assert standing(world, told, Broken()).turn() == every(10.0)

    assert world.notes.parts["heartbeat"] == "warn: no route"


def test_an_operator_takes_the_host_out_and_puts_it_back(world, told):
    ours = standing(world, told)
    ours.turn()

    ours.set_disabled("cn1", True, "maintenance")
    assert (ours.disabled, told) == (True, ["changed"])

    ours.set_disabled("cn1", False, None)
    assert (ours.disabled, told) == (False, ["changed"] * 2)


def test_what_somebody_else_has_written_shows_with_the_next_heartbeat(world, told):
    ours = standing(world, told)
    ours.turn()
    world.registry.set_disabled("cn1", True, "maintenance")
    assert not ours.disabled

    ours.turn()

    assert (ours.disabled, told) == (True, ["changed"])
