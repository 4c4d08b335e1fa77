"""A store in memory and one in SQL give the same answers and have the same content."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata, units
from rtagent.db.store import SqlStore
from rtagent.errors import RtAgentError
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, Claim, Unit
from rtagent.model.node_state import NodeState
from rtagent.model.stored import Retention
from rtagent.testing.memory_store import MemoryStore
from tests.support.stored_values import (
    NODE,
    NOW,
    changed,
    claim,
    created,
    domain_usage,
    ended,
    operation,
    pinned,
    released,
    state_of,
    uuid,
)
from tests.support.stores import enrolled, without_claims


def pinned_uuid(number: int) -> str:
    return uuid(4000 + number)


def free(state: NodeState, claim: Claim) -> bool:
    """Return whether no other owner holds the units of the claim."""
    return all(state.units.get(u, claim.owner_id) == claim.owner_id for u in claim.units)


Act = Callable[[NodeState], Change | None]

NUMBERS = st.integers(0, 4)
CPUS = st.lists(st.integers(0, 7), max_size=4, unique=True)


def create(number: int) -> Act:
    def act(state: NodeState) -> Change | None:
        # An id that was used before: the store must refuse it.
        return None if claim(number).uuid in state.claims else created(claim(number))

    return act


def activate(number: int) -> Act:
    def act(state: NodeState) -> Change | None:
        live = state.claims.get(claim(number).uuid)
        return changed(live, state=ACTIVE, revision=state.revision + 1) if live else None

    return act


def release(number: int) -> Act:
    def act(state: NodeState) -> Change | None:
        live = state.claims.get(claim(number).uuid)
        return released(live) if live else None

    return act


def pin(number: int, owner: int, cpus: list[int]) -> Act:
    """Claim host CPUs, if no other owner holds them. The owner may have another claim."""
    new = pinned(number, *cpus, uuid=pinned_uuid(number), owner_id=uuid(5000 + owner))

    def act(state: NodeState) -> Change | None:
        return created(new) if new.uuid not in state.claims and free(state, new) else None

    return act


def repin(number: int, cpus: list[int]) -> Act:
    def act(state: NodeState) -> Change | None:
        live = state.claims.get(pinned_uuid(number))
        if live is None:
            return None
        place = pinned(number, *cpus, owner_id=live.owner_id)
        moves = changed(live, numa_topology=place.numa_topology, pcpus=place.pcpus)
        return moves if free(state, place) else None

    return act


def unpin(number: int) -> Act:
    def act(state: NodeState) -> Change | None:
        live = state.claims.get(pinned_uuid(number))
        return released(live) if live else None

    return act


def hold(number: int, vcpus: int) -> Act:
    return lambda _: Change(
        cause="audit", at=NOW, domain_usages=(domain_usage(number, vcpus=vcpus),)
    )


def unhold(number: int) -> Act:
    def act(state: NodeState) -> Change | None:
        domain = domain_usage(number).domain_uuid
        held = domain in state.domain_usages
        return Change(cause="audit", at=NOW, domain_usage_removals=(domain,)) if held else None

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
#: Each batch is decided on the current state, or (blind) on a state without its claims.
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
        {h.domain_uuid: h for h in stored.domain_usages},
        store.history(NODE.uuid),
        [store.operation(NODE.uuid, name) for name in "abc"],
        [store.operation(NODE.uuid, claim(number).uuid) for number in range(5)],
    )


def kept(engine: Engine) -> dict[Unit, str]:
    """Return the owner of each unit in the database."""
    with engine.connect() as connection:
        found = connection.execute(select(units.c.kind, units.c.unit, units.c.owner_id))
        return {(kind, unit): owner for kind, unit, owner in found}


def decide(state: NodeState, acts: list[Act]) -> tuple[NodeState, list[Change]]:
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
def test_memory_and_sql_stores_are_equivalent(
    engine: Engine, batches: list[tuple[bool, list[Act]]], purging: bool
):
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    stores = (MemoryStore(), SqlStore(engine))
    state, _ = (enrolled(store) for store in stores)
    for blind, acts in batches:
        before = without_claims(state) if blind else state
        after, changes = decide(before, acts)
        said = [outcome(partial(store.commit, before, after, changes)) for store in stores]
        assert said[0] == said[1]
        if said[0] is None:
            state = state_of(stores[0].load(NODE.uuid)) if blind else after
        if purging:
            purged = [store.purge(NODE.uuid, state.revision, Retention()) for store in stores]
            assert purged[0] == purged[1]
        assert contents(stores[0]) == contents(stores[1])
        assert kept(engine) == dict(state.units)
