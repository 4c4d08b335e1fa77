import pytest

from rtagent.db.failing import ALL, FailingStore
from rtagent.db.memory import MemoryStore
from rtagent.errors import CommitUnknown, StoreUnavailable
from rtagent.ports import Store
from tests.unit.db.cases import commit, enrolled, holds
from tests.unit.db.values import NODE, claim, created


@pytest.fixture
def store() -> FailingStore:
    return FailingStore(MemoryStore())


def test_it_passes_calls_on_and_counts_them(store: FailingStore):
    as_port: Store = store
    holds(store, commit(as_port, enrolled(store), created(claim(1))))
    assert store.calls == {**dict.fromkeys(ALL, 0), "enroll": 1, "load": 1, "commit": 1}


@pytest.mark.parametrize("written", [False, True])
def test_an_unknown_outcome_either_way(store: FailingStore, written: bool):
    state = enrolled(store)
    store.fail(CommitUnknown, after=written)
    with pytest.raises(CommitUnknown):
        commit(store, state, created(claim(1)))
    assert store.load(NODE.uuid).revision == int(written)


def test_it_fails_as_often_as_told(store: FailingStore):
    state = enrolled(store)
    store.fail(lambda: StoreUnavailable("full"), 2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="full"):
            commit(store, state, created(claim(1)))
    commit(store, state, created(claim(1)))


def test_an_outage_lasts_until_it_is_healed(store: FailingStore):
    state = enrolled(store)
    store.fail(StoreUnavailable, None, on=ALL)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            store.load(NODE.uuid)
    store.heal()
    assert store.load(NODE.uuid).revision == state.revision
