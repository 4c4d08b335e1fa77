"""Host CPUs and devices have one owner and are not lost when an agent is killed at any point of any
commit.

A device for one-time use is not assigned again before it was cleared. Runs on every database.
"""

import signal
from collections.abc import Mapping

from sqlalchemy import select

from rtagent.db.engine import open_engine
from rtagent.db.schema import pci_devices, units
from rtagent.db.store import SqlStore
from rtagent.model.node_state import NodeState, restore
from rtagent.pci.allocations import device_allocations
from tests.crash.restarts import DURABLE
from tests.crash.scenario import noted
from tests.crash.test_boundaries import COMMIT
from tests.crash.unit_worker import CAUSES, ONCE, POLICY, KnownClaim, known_claims, run_worker
from tests.servers.forked import processes
from tests.support.hosts import NODE
from tests.support.workload.deployment import PATIENCE, migrated

Claims = Mapping[str, KnownClaim]


def names(claim: KnownClaim) -> set[str]:
    """Return the addresses of a claim's devices, and the numbers of its host CPUs."""
    return {name for _, name in claim[3]}


class Callers:
    """What all processes together have answered.

    :ivar requested: the call that was in flight when the last process ended: cause and subject.
    :ivar used: devices for one-time use that were assigned and not cleared since.
    """

    def __init__(self) -> None:
        self.claims: Claims = {}
        self.requested = ("", "")
        self.used: set[str] = set()

    def receive(self, word: str, cause: str, name: str, *rest: object) -> None:
        if word == "requested":
            self.requested = (cause, name)
        elif word == "done":
            self.learn(cause, name, rest[0])

    def learn(self, cause: str, name: str, claims: Claims) -> None:
        """Take over the claims after a call was answered."""
        if cause == "clear":
            # If it is assigned now, that is its one use.
            self.used.discard(name)
            self.used |= ONCE & {name for claim in claims.values() for name in names(claim)}
        for uuid in claims.keys() - self.claims.keys():
            taken = ONCE & names(claims[uuid])
            assert not taken & self.used, f"assigned again and not cleared: {taken & self.used}"
            self.used |= taken
        self.claims = claims


def test_unit_is_neither_lost_nor_assigned_twice(database_url: str, turn: int, long: bool):
    """Each point with one cause on each database, another on each; in a long run with all."""
    migrated(database_url)
    callers = Callers()
    for at, point in enumerate(COMMIT):
        for cause in CAUSES if long else [CAUSES[(3 * at + turn) % len(CAUSES)]]:
            with noted(f"{cause}, killed at {point}"):
                run_until_killed(database_url, f"{point}/{cause}:{1 + at % 2}", at, callers)
                state = loaded(database_url)
                assert callers.requested[0] == cause
                check = landed if point in DURABLE else unchanged
                check(callers, known_claims(state))


def run_until_killed(url: str, failpoint: str, seed: int, callers: Callers) -> None:
    """Run one process until it is killed."""
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=run_worker, args=(theirs, url, failpoint, seed), daemon=True)
    process.start()
    theirs.close()
    while True:
        try:
            callers.receive(*ours.recv())
        except EOFError:
            break
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL


def unchanged(callers: Callers, found: Claims) -> None:
    """Check that nothing of the call in flight is stored."""
    assert found == callers.claims


def landed(callers: Callers, found: Claims) -> None:
    """Check that the call in flight is stored completely, and nothing else changed."""
    cause, name = callers.requested
    before, new = dict(callers.claims), found.keys() - callers.claims.keys()
    assert new == ({name} if cause in ("instance_claim", "claim") else set())
    gone = before.keys() - found.keys()
    if cause in ("free", "release"):
        owner, kind, *_ = before[name]
        main = kind != "attach"
        assert gone == {
            u for u, claim in before.items() if u == name or (main and claim[0] == owner)
        }
    else:
        assert not gone
    for uuid in before.keys() & found.keys():
        owner, kind, state, held = before[uuid]
        if uuid == name and cause in ("activate", "allocate"):
            state = "active"
        assert found[uuid] == (owner, kind, state, held)
    callers.learn(cause, name, found)


def loaded(url: str) -> NodeState:
    """Load the state, and check that every row about devices agrees with it."""
    engine = open_engine(url, 30)
    state = restore(SqlStore(engine).load(NODE.uuid), POLICY)
    state.check()
    with engine.connect() as connection:
        owned = connection.execute(select(units.c.kind, units.c.unit, units.c.owner_id)).all()
        rows = {row.address: row for row in connection.execute(select(pci_devices))}
    engine.dispose()
    claims = state.claims.values()
    held = {device.address: claim for claim in claims for device in claim.pci}
    assert {(kind, unit): owner for kind, unit, owner in owned} == dict(state.units)
    assert not any("the database says" in (claim.suspect or "") for claim in claims)
    assert len(held) == sum(len(claim.pci) for claim in claims)
    used = {
        a for domain_usage in state.domain_usages.values() for a in domain_usage.occupancy.devices
    }
    assert held.keys() <= rows.keys() == set(state.devices)
    lines = device_allocations(state)
    for address, row in rows.items():
        assert row.status == lines.state(address).state
        if address in held and address not in used:
            claim = held[address]
            assert row.instance_uuid == claim.owner_id
            assert row.status == {"building": "claimed", "active": "allocated"}[claim.state]
        elif address not in used:
            assert row.instance_uuid is None
            assert row.status not in ("claimed", "allocated")
    return state
