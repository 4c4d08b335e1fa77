"""Devices over crashes: never two owners, never lost, never used twice if they are for one use; at
every boundary of every change that moves them, on every database."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import pytest
from sqlalchemy import select

from rtagent.db.engine import open_engine
from rtagent.db.schema import pci_devices, units
from rtagent.db.store import SqlStore
from rtagent.kernel import restored
from rtagent.model.host import HostState
from rtagent.pci.holds import holdings
from tests.builders import NODE
from tests.crash.child_home import processes
from tests.crash.giver import CAUSES, ONCE, POLICY, Told, give, told
from tests.crash.test_pins import POINTS
from tests.stream.home import PATIENCE, migrated

Claims = Mapping[str, Told]


class Callers:
    """What they were told, by any of the process's lives.

    :ivar asked: what was under way when the last one ended: its cause, and what it was about.
    :ivar spent: devices for one use that were given, and not cleared.
    """

    def __init__(self) -> None:
        self.claims: Claims = {}
        self.asked = ("", "")
        self.spent: set[str] = set()

    def hear(self, word: str, cause: str, name: str, *rest: object) -> None:
        if word == "asked":
            self.asked = (cause, name)
        elif word == "done":
            self.learn(cause, name, rest[0])

    def learn(self, cause: str, name: str, claims: Claims) -> None:
        """The claims after something was done."""
        if cause == "clear":
            # Whoever has it now has it for the one time.
            self.spent.discard(name)
            self.spent |= ONCE & {a for *_, devices in claims.values() for a in devices}
        for uuid in claims.keys() - self.claims.keys():
            given = ONCE.intersection(claims[uuid][3])
            assert not given & self.spent, f"given again and not cleared: {given & self.spent}"
            self.spent |= given
        self.claims = claims


@pytest.mark.parametrize("point", POINTS)
def test_a_device_is_neither_lost_nor_given_out_twice(database_url: str, point: str, long: bool):
    migrated(database_url)
    callers, at = Callers(), POINTS.index(point)
    few = (CAUSES * 2)[3 * at % 8 :][: 3 if database_url.startswith("sqlite") else 1]
    for life, cause in enumerate(CAUSES * 4 if long else few):
        one_life(database_url, f"commit.{point}/{cause}:{1 + life % 2}", life, callers)
        state = kept(database_url)
        assert callers.asked[0] == cause
        landed(callers, told(state)) if point == "after" else unchanged(callers, told(state))


def one_life(url: str, failpoint: str, seed: int, callers: Callers) -> None:
    """One process until it is killed."""
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=give, args=(theirs, url, failpoint, seed), daemon=True)
    process.start()
    theirs.close()
    while True:
        try:
            callers.hear(*ours.recv())
        except EOFError:
            break
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL


def unchanged(callers: Callers, found: Claims) -> None:
    """What was under way is not there at all."""
    assert found == callers.claims


def landed(callers: Callers, found: Claims) -> None:
    """What was under way is there, whole, and nothing besides."""
    cause, name = callers.asked
    before, new = dict(callers.claims), found.keys() - callers.claims.keys()
    assert new == ({name} if cause in ("instance_claim", "claim") else set())
    gone = before.keys() - found.keys()
    if cause in ("free", "release"):
        owner, kind, *_ = before[name]
        main = kind != "attach"
        assert gone == {u for u, told in before.items() if u == name or (main and told[0] == owner)}
    else:
        assert not gone
    for uuid in before.keys() & found.keys():
        owner, kind, state, devices = before[uuid]
        if uuid == name and cause in ("activate", "allocate"):
            state = "active"
        assert found[uuid] == (owner, kind, state, devices)
    callers.learn(cause, name, found)


def kept(url: str) -> HostState:
    """As loaded; every row that tells of devices says the same."""
    engine = open_engine(url, 5)
    state = restored(SqlStore(engine).load(NODE.uuid), POLICY)
    state.check()
    with engine.connect() as connection:
        owned = connection.execute(select(units.c.unit, units.c.owner_id)).all()
        rows = {row.address: row for row in connection.execute(select(pci_devices))}
    engine.dispose()
    claims = state.claims.values()
    held = {device.address: claim for claim in claims for device in claim.pci}
    assert dict(owned) == {address: claim.owner_id for address, claim in held.items()}
    assert len(owned) == len(held) == sum(len(claim.pci) for claim in claims)
    used = {a for holding in state.holdings.values() for a in holding.occupancy.devices}
    assert held.keys() <= rows.keys() == set(state.devices)
    lines = holdings(state)
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
