"""Host aggregates, on every kind of database."""

import threading

import pytest

from rtagent.db.aggregate_rows import AggregateTable
from rtagent.errors import InvalidRequest, RtAgentError
from rtagent.scheduler.aggregate_rules import with_host, with_metadata, without_host
from rtagent.scheduler.errors import (
    AggregateHostExists,
    AggregateHostNotFound,
    AggregateNameExists,
    AggregateNotEmpty,
    AggregateNotFound,
    ZoneConflict,
)
from tests.support.hosts import NOON, uid


@pytest.fixture
def store(engine) -> AggregateTable:
    return AggregateTable(engine)


def test_aggregates_are_created_changed_and_deleted(store):
    made = store.create("ssd", {"disk": "ssd", "x": "1"}, uid(1))
    assert store.list() == (made,)
    store.change("ssd", with_host, "cn2")
    store.change(made.uuid, with_host, "cn1")
    changed = store.change("ssd", with_metadata, {"x": None, "y": "ü"}, name="fast")
    assert changed.metadata == {"disk": "ssd", "y": "ü"} and changed.hosts == ("cn1", "cn2")
    assert store.list() == (changed,)
    for host in ("cn1", "cn2"):
        store.change("fast", without_host, host)
    store.delete("fast", NOON)
    assert store.list() == () and store.deleted() == {uid(1)}


def test_creating_again_returns_what_was_created(store):
    store.create("a", {"k": "1"}, uid(1))
    changed = store.change("a", with_metadata, {"k": "2"})
    assert store.create("a", {"k": "1"}, uid(1)) == changed


def test_uuid_of_a_deleted_aggregate_can_be_used_again(store):
    for _ in range(2):
        store.create("a", {}, uid(1))
        store.delete("a", NOON)
    assert store.deleted() == {uid(1)}


def test_duplicates_and_unknown_ones_are_named(store):
    store.create("a", {}, uid(1))
    store.create("b", {}, uid(2))
    store.change("a", with_host, "cn1")
    for error, change in (
        (AggregateNameExists, lambda: store.create("a", {}, uid(3))),
        (AggregateNameExists, lambda: store.change("b", with_metadata, {}, name="a")),
        (AggregateHostExists, lambda: store.change("a", with_host, "cn1")),
        (AggregateHostNotFound, lambda: store.change("b", without_host, "cn1")),
        (AggregateNotEmpty, lambda: store.delete("a", NOON)),
        (AggregateNotFound, lambda: store.delete("c", NOON)),
        (AggregateNotFound, lambda: store.change("c", with_metadata, {})),
        (AggregateNotFound, lambda: store.change("c", with_host, "cn1")),
        (InvalidRequest, lambda: store.create(" ", {}, uid(3))),
        (InvalidRequest, lambda: store.change("a", with_metadata, {"availability_zone": "x:y"})),
        (InvalidRequest, lambda: store.change("a", with_host, "")),
    ):
        before = store.list()
        with pytest.raises(error) as raised:
            change()
        assert isinstance(raised.value, RtAgentError) and store.list() == before
    with pytest.raises(AggregateNameExists, match=f"{uid(1)} has the name a already"):
        store.create("a", {}, uid(3))


def test_host_is_in_one_availability_zone(store):
    store.create("north", {"availability_zone": "n"}, uid(1))
    store.create("south", {"availability_zone": "s"}, uid(2))
    store.create("other", {}, uid(3))
    store.change("north", with_host, "cn1")
    store.change("other", with_host, "cn1")
    with pytest.raises(ZoneConflict, match="cn1 would be in the availability zones s and n"):
        store.change("south", with_host, "cn1")
    with pytest.raises(ZoneConflict, match="of aggregate north"):
        store.change("other", with_metadata, {"availability_zone": "s"})
    store.change("other", with_metadata, {"availability_zone": "n"})


def test_names_differ_by_case(store):
    store.create("a", {"k": "1", "K": "2"}, uid(1))
    store.create("A", {}, uid(2))
    assert [each.metadata for each in store.list() if each.name == "a"] == [{"k": "1", "K": "2"}]


def test_of_two_that_create_the_same_name_one_is_refused(store):
    outcomes: list[str] = []
    start = threading.Barrier(2)

    def create(number: int) -> None:
        start.wait(30)
        for _ in range(20):
            try:
                store.create("same", {}, uid(number))
            except AggregateNameExists:
                outcomes.append("refused")
                return
            except RtAgentError:
                continue  # the other transaction came first
            outcomes.append("made")
            return

    threads = [threading.Thread(target=create, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["made", "refused"] and len(store.list()) == 1
