"""Whatever is done to a store in memory and to one in SQL, they answer alike and hold the same."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from rtagent.db.engine import open_engine
from rtagent.db.memory import MemoryStore
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.errors import RtAgentError
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE
from rtagent.model.host import HostState
from tests.unit.db.cases import enrolled
from tests.unit.db.values import (
    NODE,
    NOW,
    claim,
    created,
    ended,
    holding,
    moved,
    operation,
    released,
)

Act = Callable[[HostState], Change | None]

NUMBERS = st.integers(0, 4)


def create(number: int) -> Act:
    def act(state: HostState) -> Change | None:
        # An id that was used before: the store must refuse it.
        return None if claim(number).uuid in state.claims else created(claim(number))

    return act


def activate(number: int) -> Act:
    def act(state: HostState) -> Change | None:
        live = state.claims.get(claim(number).uuid)
        return moved(live, state=ACTIVE, revision=state.revision + 1) if live else None

    return act


def release(number: int) -> Act:
    def act(state: HostState) -> Change | None:
        live = state.claims.get(claim(number).uuid)
        return released(live) if live else None

    return act


def hold(number: int, vcpus: int) -> Act:
    return lambda _: Change(cause="audit", at=NOW, holdings=(holding(number, vcpus=vcpus),))


def unhold(number: int) -> Act:
    def act(state: HostState) -> Change | None:
        domain = holding(number).domain_uuid
        held = domain in state.holdings
        return Change(cause="audit", at=NOW, unholdings=(domain,)) if held else None

    return act


def use(name: str, last: bool) -> Act:
    used = ended(name) if last else operation(name)
    return lambda _: Change(cause="call", at=NOW, operations=(used,))


ACTS = st.one_of(
    st.builds(create, NUMBERS),
    st.builds(activate, NUMBERS),
    st.builds(release, NUMBERS),
    st.builds(hold, NUMBERS, NUMBERS),
    st.builds(unhold, NUMBERS),
    st.builds(use, st.sampled_from("abc"), st.booleans()),
)
BATCHES = st.lists(st.lists(ACTS, min_size=1, max_size=6), max_size=6)


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except RtAgentError as error:
        return type(error)


def contents(store: MemoryStore | SqlStore) -> tuple[object, ...]:
    stored = store.load(NODE.uuid)
    return (
        stored.revision,
        {c.uuid: c for c in stored.claims},
        {h.domain_uuid: h for h in stored.holdings},
        store.history(NODE.uuid),
        [store.operation(NODE.uuid, name) for name in "abc"],
        [store.operation(NODE.uuid, claim(number).uuid) for number in range(5)],
    )


def decide(state: HostState, acts: list[Act]) -> tuple[HostState, list[Change]]:
    changes = []
    for act in acts:
        change = act(state)
        if change is not None:
            changes.append(change)
            state = state.fold(change)
    return state, changes


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = open_engine(f"sqlite:///{tmp_path_factory.mktemp('stores')}/db.sqlite", 5)
    metadata.create_all(engine)
    return engine


@given(batches=BATCHES, purging=st.booleans())
def test_memory_and_sql_are_alike(engine: Engine, batches: list[list[Act]], purging: bool):
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    stores = (MemoryStore(), SqlStore(engine))
    state, _ = (enrolled(store) for store in stores)
    for acts in batches:
        after, changes = decide(state, acts)
        said = [outcome(partial(store.commit, state, after, changes)) for store in stores]
        assert said[0] == said[1]
        if said[0] is None:
            state = after
        if purging:
            later = NOW + timedelta(seconds=1)
            assert stores[0].purge(NODE.uuid, later) == stores[1].purge(NODE.uuid, later)
        assert contents(stores[0]) == contents(stores[1])
