"""Services and their heartbeats."""

from datetime import timedelta

from msgspec.structs import replace

from tests.support.stored_values import NOW, ODD
from tests.support.stores import Database


def test_heartbeat_creates_and_updates_the_service(database: Database):
    registry = database.registry()
    first = registry.heartbeat("b", NOW)
    assert (first.report_count, first.disabled) == (1, False)
    second = registry.heartbeat("b", NOW + timedelta(microseconds=1))
    assert second == replace(first, report_count=2, last_seen_up=second.last_seen_up)
    assert first.last_seen_up is not None and second.last_seen_up is not None
    assert second.last_seen_up > first.last_seen_up
    registry.heartbeat("a", NOW)
    assert [s.host for s in registry.services()] == ["a", "b"]


def test_host_is_disabled_and_enabled(database: Database):
    registry = database.registry()
    registry.heartbeat("a", NOW)
    assert registry.set_disabled("a", True, ODD).disabled_reason == ODD
    beat = database.registry().heartbeat("a", NOW)
    assert (beat.disabled, beat.disabled_reason, beat.report_count) == (True, ODD, 2)
    assert not registry.set_disabled("a", False, None).disabled
    assert registry.set_disabled("new", True, "r").report_count == 0
