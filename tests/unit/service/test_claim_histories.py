"""Reads of the history, and their bounds."""

import threading

import pytest

from rtagent.errors import StoreUnavailable, TooManyRequests
from rtagent.model.claim import HistoryPage
from rtagent.service.page_sources import READERS, ClaimHistories
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.memory_store import MemoryStore
from tests.support.stored_values import changed, claim, created
from tests.support.stores import commit, enrolled


class SlowStore(MemoryStore):
    """A store whose reads of the history wait."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = threading.Semaphore(0)
        self.go = threading.Event()

    def history_page(self, *arguments, **named) -> HistoryPage:
        self.reading.release()
        assert self.go.wait(60)
        return super().history_page(*arguments, **named)


def test_a_live_claim_is_read_again_only_after_a_change():
    store = FailingStore(MemoryStore())
    one = claim(1)
    state = commit(store, enrolled(store), created(one))
    histories = ClaimHistories(store)
    first = histories.read(state, one.uuid, None)
    assert histories.read(state, one.uuid, None) is first
    assert store.calls["history_page"] == 1
    state = commit(store, state, changed(one, state="active", revision=2))
    actions = [e.event.action for e in histories.read(state, one.uuid, None).events]
    assert actions == ["activate", "create"]


def test_reads_that_wait_for_the_database_do_not_keep_others_waiting():
    store = SlowStore()
    state = enrolled(store)
    histories = ClaimHistories(store)
    one = {"target": histories.read, "args": (state, None, None)}
    threads = [threading.Thread(**one) for _ in range(READERS)]
    try:
        for thread in threads:
            thread.start()
            assert store.reading.acquire(timeout=60)
        with pytest.raises(TooManyRequests, match="wait for the database"):
            histories.read(state, None, None)
    finally:
        store.go.set()
        for thread in threads:
            thread.join(60)
    assert histories.read(state, None, None) == HistoryPage()


def test_a_failed_read_leaves_its_turn_to_others():
    store = FailingStore(MemoryStore())
    state = enrolled(store)
    histories = ClaimHistories(store)
    store.fail(StoreUnavailable, times=2 * READERS, on=("history_page",))
    for _ in range(2 * READERS):
        with pytest.raises(StoreUnavailable):
            histories.read(state, None, None)
    assert histories.read(state, None, None) == HistoryPage()
