"""Every way to lay the steps of a move around an audit of either host: it ends as if there had been
none, and at no moment does the guest hold more or less than its claims say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from rtagent.model.claim import Claim
from tests.moving_guests import ONE_GPU, PINNED_2, Guests

#: Where an audit is when something else happens: not begun, after its snapshot, before the listing,
#: after it, ended.
SEGMENTS = 5
MOMENTS = ("devices", "list", "finish")

Step = Callable[["Story"], object]


class Story:
    """One guest's move. :ivar here: both sides are one host."""

    def __init__(self, kind: str, here: bool, flavor: Any) -> None:
        self.guests, self.dest = Guests(shared=False), 0 if here else 1
        self.kind, self.old = kind, self.guests.run(0, flavor)
        self.new: Claim | None = None
        self.told: Any = None

    def expect(self) -> None:
        self.new, self.told = self.guests.expect(self.dest, self.old, self.kind)

    def at_source(self, verb: str) -> None:
        self.guests.say(0, verb, self.old, self.told)

    def at_dest(self, verb: str) -> None:
        self.guests.say(self.dest, verb, self.old, self.told)

    def goes(self) -> None:
        self.guests.goes(0, self.old)

    def comes_back(self) -> None:
        self.guests.appears(0, self.old)

    def arrives(self) -> None:
        assert self.new is not None
        self.guests.appears(self.dest, self.new)

    def goes_again(self) -> None:
        assert self.new is not None
        self.guests.goes(self.dest, self.new)

    def end(self) -> Any:
        """What is left, when every host has been looked at once more."""
        for host in (0, 1):
            self.guests.audit(host)
        self.guests.checked()
        return [self._end(host) for host in (0, 1)]

    def _end(self, host: int) -> Any:
        state = self.guests.state(host)
        claims = [(c.kind, c.state, c.suspect) for c in state.claims_of(self.old.owner_id)]
        statuses = [record.status for record in state.migrations.values()]
        units = sorted(name for _, name in state.units)
        return claims, statuses, units, state.usage.memory_mb, sorted(state.holdings)


def says(side: str, verb: str) -> Step:
    return lambda story: getattr(story, side)(verb)


def does(what: str) -> Step:
    return lambda story: getattr(story, what)()


LEAVES = (does("expect"), says("at_source", "start_move_out"), does("goes"))
ARRIVES = (says("at_dest", "finish_move"), does("arrives"))
#: By name: the type of the move, and its steps.
STORIES: dict[str, tuple[str, tuple[Step, ...]]] = {
    "confirmed": (
        "resize",
        (*LEAVES, *ARRIVES, says("at_source", "drop_move_claim_at_source")),
    ),
    "reverted": (
        "resize",
        (
            *(*LEAVES, *ARRIVES, does("goes_again")),
            says("at_dest", "drop_move_claim_at_dest"),
            says("at_source", "finish_revert"),
            does("comes_back"),
        ),
    ),
    "failed": (
        "migration",
        (
            *LEAVES,
            says("at_dest", "drop_move_claim"),
            says("at_source", "drop_move_claim"),
            does("comes_back"),
        ),
    ),
    "live": (
        "live-migration",
        (
            *(does("expect"), does("arrives")),
            *(says("at_dest", "finish_move"), does("goes")),
            says("at_source", "drop_move_claim_at_source"),
        ),
    ),
    "evacuated": (
        "evacuation",
        (
            *(does("expect"), says("at_dest", "finish_evacuation"), does("arrives"), does("goes")),
            says("at_source", "drop_move_claim_at_source"),
        ),
    ),
}
HERE = ("confirmed", "reverted", "failed")


def play(name: str, here: bool, flavor: Any, host: int, places: Sequence[int]) -> Any:
    """The story, its steps in these segments of an audit of that host."""
    kind, steps = STORIES[name]
    story = Story(kind, here, flavor)
    left = list(zip(places, steps, strict=True))

    def until(segment: int) -> None:
        while left and left[0][0] <= segment:
            left.pop(0)[1](story)
            story.guests.state(0).check()
            story.guests.state(1).check()

    until(0)
    world = story.guests.worlds[host]
    world.between = lambda at: until(1 + MOMENTS.index(at)) if at in MOMENTS else None
    story.guests.audit(host)
    world.between = lambda at: None
    until(SEGMENTS)
    return story.end()


def splits(length: int) -> Iterator[tuple[int, ...]]:
    return itertools.combinations_with_replacement(range(SEGMENTS), length)


def undisturbed(name: str, here: bool, flavor: Any) -> Any:
    return play(name, here, flavor, 1, [0] * len(STORIES[name][1]))


@pytest.mark.parametrize("flavor", [PINNED_2, ONE_GPU], ids=["pins", "device"])
@pytest.mark.parametrize("host", [0, 1], ids=["source", "destination"])
@pytest.mark.parametrize("name", STORIES)
def test_every_way_to_lay_a_move_around_an_audit(name: str, host: int, flavor: Any, long: bool):
    right = undisturbed(name, False, flavor)
    every = list(splits(len(STORIES[name][1])))
    for places in every if long else every[:: len(every) // 100]:
        assert play(name, False, flavor, host, places) == right, places


@pytest.mark.parametrize("name", HERE)
def test_the_same_on_one_host(name: str, long: bool):
    right = undisturbed(name, True, PINNED_2)
    every = list(splits(len(STORIES[name][1])))
    for places in every if long else every[:: len(every) // 100]:
        assert play(name, True, PINNED_2, 0, places) == right, places
