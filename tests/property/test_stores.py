"""Whatever is done to a store in memory and to one in SQL, they answer alike and hold the same."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from rtagent.db.engine import open_engine
from rtagent.db.memory import MemoryStore
from rtagent.db.schema import metadata, units
from rtagent.db.store import SqlStore
from rtagent.errors import RtAgentError
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, Claim, Unit
from rtagent.model.host import HostState
from tests.unit.db.cases import enrolled, forgetful
from tests.unit.db.values import (
    NODE,
    NOW,
    claim,
    created,
    ended,
    holding,
    moved,
    operation,
    pinned,
    released,
    state_of,
    uuid,
)


def pinned_uuid(number: int) -> str:
    return uuid(4000 + number)


def free(state: HostState, claim: Claim) -> bool:
    """Whether nobody else holds what it would."""
    return all(state.units.get(u, claim.owner_id) == claim.owner_id for u in claim.units)


Act = Callable[[HostState], Change | None]

NUMBERS = st.integers(0, 4)
CPUS = st.lists(st.integers(0, 7), max_size=4, unique=True)


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


def pin(number: int, owner: int, cpus: list[int]) -> Act:
    """A claim of host CPUs, of an owner who may have another, where nobody else has them."""
    new = pinned(number, *cpus, uuid=pinned_uuid(number), owner_id=uuid(5000 + owner))

    def act(state: HostState) -> Change | None:
        return created(new) if new.uuid not in state.claims and free(state, new) else None

    return act


def repin(number: int, cpus: list[int]) -> Act:
    def act(state: HostState) -> Change | None:
        live = state.claims.get(pinned_uuid(number))
        if live is None:
            return None
        place = pinned(number, *cpus, owner_id=live.owner_id)
        moves = moved(live, numa_topology=place.numa_topology, pcpus=place.pcpus)
        return moves if free(state, place) else None

    return act


def unpin(number: int) -> Act:
    def act(state: HostState) -> Change | None:
        live = state.claims.get(pinned_uuid(number))
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
    st.builds(pin, NUMBERS, st.integers(0, 2), CPUS),
    st.builds(repin, NUMBERS, CPUS),
    st.builds(unpin, NUMBERS),
    st.builds(hold, NUMBERS, NUMBERS),
    st.builds(unhold, NUMBERS),
    st.builds(use, st.sampled_from("abc"), st.booleans()),
)
#: Each decided on the state as it is, or (blind) as it would be to one that knows of no claim.
BATCHES = st.lists(st.tuples(st.booleans(), st.lists(ACTS, min_size=1, max_size=6)), max_size=6)


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


def kept(engine: Engine) -> dict[Unit, str]:
    """The owner of each unit, as the database has it."""
    with engine.connect() as connection:
        found = connection.execute(select(units.c.kind, units.c.unit, units.c.owner_id))
        return {(kind, unit): owner for kind, unit, owner in found}


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
def test_memory_and_sql_are_alike(
    engine: Engine, batches: list[tuple[bool, list[Act]]], purging: bool
):
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    stores = (MemoryStore(), SqlStore(engine))
    state, _ = (enrolled(store) for store in stores)
    for blind, acts in batches:
        before = forgetful(state) if blind else state
        after, changes = decide(before, acts)
        said = [outcome(partial(store.commit, before, after, changes)) for store in stores]
        assert said[0] == said[1]
        if said[0] is None:
            state = state_of(stores[0].load(NODE.uuid)) if blind else after
        if purging:
            later = NOW + timedelta(seconds=1)
            assert stores[0].purge(NODE.uuid, later) == stores[1].purge(NODE.uuid, later)
        assert contents(stores[0]) == contents(stores[1])
        assert kept(engine) == dict(state.units)
