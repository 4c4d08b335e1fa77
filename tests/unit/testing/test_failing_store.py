import pytest

from rtagent.errors import CommitUnknown, StoreUnavailable
from rtagent.ports import Store
from rtagent.testing.failing_store import ALL, FailingStore
from rtagent.testing.memory_store import MemoryStore
from tests.support.stored_values import NODE, claim, created
from tests.support.stores import assert_loads, commit, enrolled


@pytest.fixture
def store() -> FailingStore:
    return FailingStore(MemoryStore())


def test_calls_are_passed_on_and_counted(store: FailingStore):
    as_port: Store = store
    assert_loads(store, commit(as_port, enrolled(store), created(claim(1))))
    assert store.calls == {**dict.fromkeys(ALL, 0), "enroll": 1, "load": 1, "commit": 1}


@pytest.mark.parametrize("written", [False, True])
def test_failed_commit_may_be_written_or_not(store: FailingStore, written: bool):
    state = enrolled(store)
    store.fail(CommitUnknown, after=written)
    with pytest.raises(CommitUnknown):
        commit(store, state, created(claim(1)))
    assert store.load(NODE.uuid).revision == int(written)


def test_store_fails_the_requested_number_of_times(store: FailingStore):
    state = enrolled(store)
    store.fail(lambda: StoreUnavailable("full"), 2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="full"):
            commit(store, state, created(claim(1)))
    commit(store, state, created(claim(1)))


def test_outage_lasts_until_heal(store: FailingStore):
    state = enrolled(store)
    store.fail(StoreUnavailable, None, on=ALL)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            store.load(NODE.uuid)
    store.heal()
    assert store.load(NODE.uuid).revision == state.revision
