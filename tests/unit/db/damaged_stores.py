"""A database with rows of every table, and the check of a start on it after damage."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rtagent.db.engine import open_engine
from rtagent.db.restore import check_files
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.errors import InvariantViolated, RtAgentError
from rtagent.identity.enrollment import Claimant, HeartbeatWatch, enroll
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, INCOMING
from rtagent.model.node_state import NodeState
from rtagent.model.policy import ManageAllocations, PlacementPolicy
from rtagent.model.usage import NUMA_NOTHING
from tests.support.stored_values import (
    DEVICE,
    INVENTORIES,
    NODE,
    NOW,
    OCCUPANCY,
    POLICY,
    TOPOLOGY,
    WRITER,
    claim,
    created,
    device,
    domain_usage,
    migration,
    odd_claim,
    pinned,
    state_of,
    uuid,
)
from tests.support.stores import commit, enrolled

#: A start of the agent on the same machine.
AGENT = Claimant(node=NODE, writer=WRITER, compute_id="compute_id", service_down_time=60)


def fill(path: Path) -> NodeState:
    """Write rows of every table. Return the state."""
    engine = open_engine(f"sqlite:///{path}", 5)
    metadata.create_all(engine)
    store = SqlStore(engine)
    change = replace(
        created(
            pinned(1, 4, 5, state=ACTIVE, expires_at=None),
            claim(2),
            odd_claim(3),
            claim(4, state=INCOMING, kind="resize", migration_uuid=uuid(4004)),
        ),
        migrations=(migration(4, claim_uuid=uuid(1004)),),
        domain_usages=(domain_usage(1, occupancy=OCCUPANCY),),
        devices=(DEVICE, device(1, quarantine="it overheats")),
        resource_inventories=INVENTORIES,
        topology=TOPOLOGY,
        policy=POLICY,
        failed_builds=3,
        disk_available_least=7,
    )
    state = commit(store, enrolled(store), change)
    placement = PlacementPolicy(manage_allocations=ManageAllocations.YES)
    state = replace(state, policy=replace(POLICY, placement=placement))
    state = commit(store, state, Change(cause="placement", at=NOW, unwritten=(uuid(5),)))
    engine.dispose()
    return state


def facts(state: NodeState) -> tuple[Any, ...]:
    """Everything that a store has, but the writer."""
    return (
        dict(state.claims),
        dict(state.domain_usages),
        dict(state.migrations),
        dict(state.devices),
        state.resource_inventories,
        state.topology,
        state.failed_builds,
        state.disk_available_least,
        dict(state.outbox),
        state.drain,
        state.usage,
        dict(state.units),
    )


def judge(before: NodeState, path: Path) -> str:
    """Start on the database. Return the outcome, or fail if damage was not noticed."""
    engine = open_engine(f"sqlite:///{path}", 5)
    try:
        check_files(engine)
        return outcome(before, SqlStore(engine))
    except RtAgentError as error:
        assert error.message
        return "refused"
    finally:
        engine.dispose()


def outcome(before: NodeState, store: SqlStore) -> str:
    state = state_of(
        store.enroll(NODE.uuid, NODE.hypervisor_hostname, enroll(AGENT, HeartbeatWatch(), 0.0))
    )
    if facts(state) == facts(before) and not state.unknown:
        return "identical"
    if state.unknown:
        with pytest.raises(InvariantViolated, match="it is not known what is held"):
            state.check()
        return "grants nothing"
    assert noticed(before, state)
    assert set(state.units) >= set(before.units)
    for key, was in before.claims.items():
        now = replace(state.claims[key].usage, numa=NUMA_NOTHING)
        assert now.larger(replace(was.usage, numa=NUMA_NOTHING)) == now
    state.check()
    # The node goes on granting, and a release ends what is quarantined.
    new = claim(9, revision=state.revision + 1)
    state = commit(store, state, created(new))
    again = state_of(store.load(NODE.uuid))
    assert set(again.claims) == set(state.claims)
    assert dict(again.units) == dict(state.units)
    again.check()
    return "quarantined"


def noticed(before: NodeState, state: NodeState) -> bool:
    """Whether everything that differs was reported."""
    for key, was in before.claims.items():
        now = state.claims.get(key)
        if now != was and not (now is not None and now.suspect):
            return False
    return bool(state.damage) or any(c.suspect for c in state.claims.values())
