"""The steps of a move, distributed in every way around an audit of either host.

The move ends as it does without an audit, and every state on the way keeps its invariants.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from rtagent.model.node_state import NodeState
from tests.support.agents import agents, check_all, facts, pinned, with_devices
from tests.support.pci_hosts import GPU_0

#: Where the audit is when a step happens: not begun, after its snapshot, before the listing of
#: domains, after it, ended.
SEGMENTS = 5
MOMENTS = ("devices", "list", "finish")

#: By name: the type of the move, and its steps: ``METHOD@SIDE``, or what happens to the domain.
MOVES: dict[str, tuple[str, tuple[str, ...]]] = {
    "confirmed": (
        "resize",
        (
            *("claim", "start_move_out@source", "stop_at_source"),
            *("finish_move@dest", "start_at_dest", "drop_move_claim_at_source@source"),
        ),
    ),
    "reverted": (
        "resize",
        (
            *("claim", "start_move_out@source", "stop_at_source"),
            *("finish_move@dest", "start_at_dest", "stop_at_dest"),
            *("drop_move_claim_at_dest@dest", "finish_revert@source", "start_at_source"),
        ),
    ),
    "failed": (
        "migration",
        (
            *("claim", "start_move_out@source", "stop_at_source"),
            *("drop_move_claim@dest", "drop_move_claim@source", "start_at_source"),
        ),
    ),
    "live": (
        "live-migration",
        (
            *("claim", "start_at_dest", "finish_move@dest", "stop_at_source"),
            "drop_move_claim_at_source@source",
        ),
    ),
    "evacuated": (
        "evacuation",
        (
            *("claim", "finish_evacuation@dest", "start_at_dest", "stop_at_source"),
            "drop_move_claim_at_source@source",
        ),
    ),
}


class Move:
    """The move of one guest. :param here: source and destination are one host."""

    def __init__(self, kind: str, here: bool, flavor: Any) -> None:
        self.hosts = agents(2, shared=False, gpus=[GPU_0])
        self.source, self.dest = self.hosts[0], self.hosts[0 if here else 1]
        self.flavor, self.old = flavor, self.source.run(flavor)
        self.migration = facts(
            kind, source_compute=self.source.node.host, dest_compute=self.dest.node.host
        )
        self.new: Any = None

    def step(self, name: str) -> None:
        method, _, side = name.partition("@")
        if side:
            getattr(self, side).move(method, self.migration)
        else:
            getattr(self, name)()
        check_all(self.hosts)

    def claim(self) -> None:
        self.new = self.dest.claim_move(self.migration, self.flavor, old=self.flavor)

    def stop_at_source(self) -> None:
        self.source.world.destroy(self.old.owner_id)

    def start_at_source(self) -> None:
        self.source.start_domain(self.old)

    def start_at_dest(self) -> None:
        self.dest.start_domain(self.new)

    def stop_at_dest(self) -> None:
        self.dest.world.destroy(self.old.owner_id)

    def end(self) -> Any:
        """The result, after a last audit of every host."""
        for host in self.hosts:
            host.audit()
        check_all(self.hosts)
        return [self._end(host.state) for host in self.hosts]

    def _end(self, state: NodeState) -> Any:
        claims = [(c.kind, c.state, c.suspect) for c in state.claims_of(self.old.owner_id)]
        statuses = [record.status for record in state.migrations.values()]
        units = sorted(name for _, name in state.units)
        return claims, statuses, units, state.usage.memory_mb, sorted(state.domain_usages)


HERE = ("confirmed", "reverted", "failed")


def run_move(name: str, here: bool, flavor: Any, host: int, places: Sequence[int]) -> Any:
    """Run a move whose steps are in these segments of an audit of that host."""
    kind, steps = MOVES[name]
    move = Move(kind, here, flavor)
    left = list(zip(places, steps, strict=True))

    def until(segment: int) -> None:
        while left and left[0][0] <= segment:
            move.step(left.pop(0)[1])

    until(0)
    agent = move.hosts[host]
    agent.world.between = lambda at: until(1 + MOMENTS.index(at)) if at in MOMENTS else None
    agent.audit()
    agent.world.between = lambda at: None
    until(SEGMENTS)
    return move.end()


def splits(length: int) -> Iterator[tuple[int, ...]]:
    return itertools.combinations_with_replacement(range(SEGMENTS), length)


def without_audit(name: str, here: bool, flavor: Any) -> Any:
    return run_move(name, here, flavor, 1, [0] * len(MOVES[name][1]))


@pytest.mark.parametrize("flavor", [pinned(2), with_devices("gpu:1")], ids=["pins", "device"])
@pytest.mark.parametrize("host", [0, 1], ids=["source", "destination"])
@pytest.mark.parametrize("name", MOVES)
def test_move_around_an_audit_ends_as_without_one(name: str, host: int, flavor: Any, long: bool):
    right = without_audit(name, False, flavor)
    every = list(splits(len(MOVES[name][1])))
    for places in every if long else every[:: len(every) // 40]:
        assert run_move(name, False, flavor, host, places) == right, places


@pytest.mark.parametrize("name", HERE)
def test_move_on_one_host_around_an_audit_ends_as_without_one(name: str, long: bool):
    right = without_audit(name, True, pinned(2))
    every = list(splits(len(MOVES[name][1])))
    for places in every if long else every[:: len(every) // 40]:
        assert run_move(name, True, pinned(2), 0, places) == right, places
