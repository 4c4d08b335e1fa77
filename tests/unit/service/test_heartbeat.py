"""The heartbeat of the service, and whether it takes part in scheduling."""

import pytest

from rtagent.errors import NodeNotReady, StoreUnavailable, WriterFenced
from rtagent.service.heartbeat import Heartbeat
from rtagent.service.loop import every
from tests.support.hosts import NOON
from tests.support.trackers import claim


class BrokenRegistry:
    """A registry whose database is down."""

    def heartbeat(self, host, now):
        raise StoreUnavailable("no route")


@pytest.fixture
def heartbeat(world):
    return Heartbeat(world.context, world.registry, world.tracker)


def test_turn_sends_a_heartbeat(world, heartbeat):
    assert [heartbeat.turn() for _ in range(2)] == [every(10.0)] * 2

    (service,) = heartbeat.services()
    assert (service.host, service.report_count, service.last_seen_up) == ("cn1", 2, NOON)
    assert world.notes.texts["heartbeat"] == "pass"
    assert world.events.seen == []
    world.configure(report_interval=3)
    assert heartbeat.turn() == every(3)


def test_idle_writer_notices_that_it_is_fenced(world, heartbeat):
    heartbeat.turn()
    assert world.tracker.fault is None

    world.open()  # as another process would
    heartbeat.turn()

    assert isinstance(world.tracker.fault, WriterFenced)
    assert "has epoch 2, ours is 1: stopping" in world.notes.texts["tracker"]


def test_heartbeat_that_fails_is_a_warning(world):
    heartbeat = Heartbeat(world.context, BrokenRegistry(), world.tracker)

    assert heartbeat.turn() == every(10.0)

    assert world.notes.texts["heartbeat"] == "warn: no route"


def test_operator_disables_and_enables_the_service(world, heartbeat):
    heartbeat.turn()

    heartbeat.set_disabled("cn1", True, "maintenance")
    assert (heartbeat.disabled, world.events.seen) == (True, ["ServiceChanged"])

    heartbeat.set_disabled("cn1", False, None)
    assert (heartbeat.disabled, world.events.seen) == (False, ["ServiceChanged"] * 2)

    world.registry.set_disabled("cn1", True, "by another process")
    heartbeat.turn()
    assert (heartbeat.disabled, world.events.seen) == (True, ["ServiceChanged"] * 3)


def test_forced_down_host_grants_no_claim_and_says_why_also_if_it_was_disabled(world, heartbeat):
    world.serve()
    heartbeat.set_disabled("cn1", True, "maintenance")
    assert heartbeat.why_forced_down == ""

    heartbeat.set_forced_down("cn1", True)
    assert "no claim is granted" in heartbeat.why_forced_down
    assert "rtagent service force-down cn1 --off" in world.notes.texts["forced_down"]
    with pytest.raises(NodeNotReady, match="forced this host down"):
        claim(world.tracker)

    heartbeat.set_forced_down("cn1", False)
    assert (heartbeat.why_forced_down, world.notes.texts["forced_down"]) == ("", "pass")
    assert world.events.seen == ["ServiceChanged"] * 3
    assert claim(world.tracker)
