"""The documents of what has happened."""

import json
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest
from msgspec.structs import replace

from rtagent.api.page.host_pages import PageSources
from rtagent.api.routes import answer
from rtagent.errors import StoreUnavailable
from rtagent.model.claim import HistoryPage
from rtagent.model.health import Status
from rtagent.model.timeline import TimelineEntry, TimelineView
from rtagent.service.page_sources import PAGE, ClaimHistories
from rtagent.testing.memory_store import MemoryStore
from tests.support.api_states import NOW, populated, sources, uuid
from tests.support.stored_values import NODE, changed, claim, created
from tests.support.stores import commit, enrolled

MINUTE = timedelta(minutes=1)
STORE = {"kind": "outage", "subject": "store", "summary": "away"}
OUTAGE = TimelineEntry(at=NOW, until=None, status=Status.FAIL, **STORE)
GOOD = {"kind": "audit", "subject": "periodic", "summary": "fine"}
AUDIT = replace(OUTAGE, until=NOW, status=Status.PASS, **GOOD)


def get(target: str, more: PageSources) -> tuple[HTTPStatus, dict[str, Any]]:
    reply = answer(replace(sources(), more=more), target)
    return reply.status, json.loads(reply.body)


def hour() -> TimelineView:
    return TimelineView(now=NOW + MINUTE, since=NOW - MINUTE, entries=(OUTAGE, AUDIT))


def test_the_timeline_is_complete_from_a_time_on_and_filtered_by_kind():
    status, document = get("/timeline", PageSources(timeline=hour))
    assert (status, document["since"]) == (HTTPStatus.OK, "2030-01-02T03:03:05Z")
    entries = [(each["kind"], each["until"]) for each in document["timeline"]]
    assert entries == [("outage", None), ("audit", "2030-01-02T03:04:05Z")]
    _, document = get("/timeline?kind=audit", PageSources(timeline=hour))
    assert [each["subject"] for each in document["timeline"]] == ["periodic"]
    status, document = get("/timeline?kind=x", PageSources(timeline=hour))
    assert (status, document["error"]) == (HTTPStatus.BAD_REQUEST, "InvalidRequest")


def recorded() -> tuple[MemoryStore, PageSources]:
    """A store with more events than one page has, and what reads it."""
    store = MemoryStore()
    state = commit(store, enrolled(store), created(*(claim(n) for n in range(PAGE))))
    commit(store, state, changed(claim(0), state="active"))
    histories = ClaimHistories(store)
    mine = replace(populated(), node=NODE)
    return store, PageSources(history=lambda _, *asked: histories.read(mine, *asked))


def test_the_history_of_a_claim_is_complete_and_newest_first():
    _, more = recorded()
    status, document = get(f"/claims/{claim(0).uuid}/history", more)
    assert (status, document["older"]) == (HTTPStatus.OK, None)
    assert [each["action"] for each in document["history"]] == ["activate", "create"]
    assert document["history"][0]["before"]["state"] == "building"
    assert document["history"][0]["number"] > document["history"][1]["number"]


def test_the_history_of_all_claims_is_read_a_page_at_a_time():
    store, more = recorded()
    _, first = get("/history", more)
    _, second = get(f"/history?before={first['older']}", more)
    assert (len(first["history"]), len(second["history"])) == (PAGE, 1)
    every = [each["claim_uuid"] for each in (*first["history"], *second["history"])]
    assert every == [each.claim_uuid for each in reversed(store.history(NODE.uuid))]
    assert second["older"] is None


def test_a_claim_that_was_never_recorded_is_not_found():
    status, document = get(f"/claims/{uuid(77)}/history", recorded()[1])
    assert (status, document["error"]) == (HTTPStatus.NOT_FOUND, "ClaimNotFound")


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "9" * 30, "%D9%A1"])
def test_a_wrong_number_is_named(value):
    status, document = get(f"/history?before={value}", recorded()[1])
    assert (status, "before: not a number" in document["message"]) == (HTTPStatus.BAD_REQUEST, True)


def test_a_database_that_does_not_answer_is_said_to():
    def fail(*_: object) -> HistoryPage:
        raise StoreUnavailable("no route")

    status, document = get("/history", PageSources(history=fail))
    assert (status, document["retriable"]) == (HTTPStatus.SERVICE_UNAVAILABLE, True)
