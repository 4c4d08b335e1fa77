"""A drain at each moment among the steps of a move, of a stream of claims, and of an audit.

A claim is refused if, and only if, it is requested after the drain. The move ends as it does
without a drain, unless its claim at the destination comes after the drain of the destination. No
step of an audit is lost.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from rtagent.claims import abort_instance_claim, drain
from rtagent.errors import NodeDraining
from tests.interleavings.test_audit_and_moves import MOMENTS, MOVES, SEGMENTS, Move
from tests.support.agents import check_all, pinned
from tests.support.hosts import call, uid

#: Where the audit may begin: before so many of the steps.
AUDITED = (0, 2, 4)
#: How many claims are requested on the way.
STREAM = 3


class Drained:
    """A move, claims of other instances on one host, and the drain of that host."""

    def __init__(self, name: str, host: int) -> None:
        kind, self.steps = MOVES[name]
        self.move, self.host = Move(kind, False, pinned(2)), host
        self.draining = self.refused_move = False
        self.made: list[str] = []

    @property
    def tracker(self) -> Any:
        return self.move.hosts[self.host].tracker

    def drain(self) -> None:
        self.tracker.execute(drain, call("drain_node"), "new disks", None)
        self.draining = True

    def request(self) -> None:
        """Claim for another instance, which is granted if the host does not drain."""
        try:
            self.made.append(self.move.hosts[self.host].build(owner=uid()).uuid)
            granted = True
        except NodeDraining:
            granted = False
        assert granted is not self.draining

    def step(self, name: str) -> None:
        """Make a step of the move. Without its claim, the other steps are not made."""
        if self.refused_move:
            return
        try:
            self.move.step(name)
        except NodeDraining:
            assert (name, self.host, self.draining) == ("claim", 1, True)
            self.refused_move = True

    def end(self) -> Any:
        """The result of the move; the claims of the stream are given back before."""
        live = self.tracker.snapshot().claims
        assert set(self.made) <= set(live)
        for uuid in self.made:
            self.tracker.execute(abort_instance_claim, call("abort_instance_claim"), uuid)
        assert (self.tracker.snapshot().drain is not None) is self.draining
        return self.move.end()


def run(name: str, host: int, drain_at: int | None, segment: int, audit_at: int) -> Drained:
    """Run the steps, with the drain before one of them or, in an audit, at one of its moments.

    :param segment: of the audit, in which the steps after its begin are made.
    """
    here = Drained(name, host)
    todo: list[Callable[[], None]] = []
    for number, each in enumerate(here.steps):
        if number % 2 == 0 and number < 2 * STREAM:
            todo.append(here.request)
        todo.append(partial(here.step, each))
    todo.append(here.request)
    if drain_at is not None:
        todo.insert(drain_at, here.drain)
    before, within = todo[:audit_at], todo[audit_at:]
    make_all(here, before)
    agent = here.move.hosts[host]
    moment = MOMENTS[segment - 1] if 0 < segment < SEGMENTS - 1 else None
    agent.world.between = lambda at: make_all(here, within) if at == moment else None
    agent.audit()
    agent.world.between = lambda at: None
    make_all(here, within)
    return here


def make_all(here: Drained, todo: list[Callable[[], None]]) -> None:
    while todo:
        todo.pop(0)()
        check_all(here.move.hosts)


@pytest.mark.parametrize("host", [0, 1], ids=["source", "destination"])
@pytest.mark.parametrize("name", MOVES)
def test_drain_at_each_moment_refuses_later_claims_only(name: str, host: int, long: bool):
    right = run(name, host, None, 0, 0).end()
    length = len(MOVES[name][1]) + STREAM + 1
    untouched = None
    orders: Sequence[tuple[int, int, int]] = list(
        itertools.product(range(length), range(SEGMENTS), AUDITED)
    )
    for order in orders if long else orders[::5]:
        here = run(name, host, *order)
        ended = here.end()
        if here.refused_move:  # the guest stays where it is, as if no move had been tried
            untouched = untouched or ended
            assert ended == untouched, order
            assert here.move.source.state.claims_of(here.move.old.owner_id)
        else:
            assert ended == right, order
