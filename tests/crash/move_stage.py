"""A stage: the agents at the two sides of a move, which may be one and the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tests.crash.move_story import SOURCE, Step, Story
from tests.crash.picture import Painter
from tests.crash.scene import in_vain
from tests.crash.tour import DURABLE
from tests.stream.home import Home

#: For each step, what it answers, and what the databases say then.
Script = Sequence[tuple[Any, Any]]


class Stage:
    """:param homes: by side."""

    def __init__(self, homes: Mapping[str, Home]) -> None:
        self._homes = homes
        self._painters: dict[str, Painter] = {}
        self._alive: set[Home] = set()
        for home in dict.fromkeys(homes.values()):
            self._live(home)

    @property
    def two(self) -> bool:
        """Whether the sides are two agents."""
        return len(set(self._homes.values())) == 2

    def rehearse(self, story: Story) -> Script:
        """The story, undisturbed."""
        self._open(story)
        script = [(story.settled(self._do(step)), self._paint(story)) for step in story.steps]
        self._clear(story)
        return script

    def perform(
        self, story: Story, script: Script, points: Callable[[Step], Iterable[str]]
    ) -> None:
        """The same, each step cut off at these boundaries and repeated; all is as it was rehearsed.

        :param points: for a step; the durable one comes last.
        """
        self._open(story)
        before = self._paint(story)
        for step, (answer, after) in zip(story.steps, script, strict=True):
            try:
                for point in points(step):
                    self._cut_off(step, point)
                    assert self._paint(story) == (after if point in DURABLE else before)
                if self._homes[step.side] not in self._alive:
                    self._live(self._homes[step.side])
                assert story.settled(self._do(step)) == answer
                assert self._paint(story) == after
            except Exception as error:
                error.add_note(f"{step.method} at the {step.side}")
                raise
            before = after
        self._clear(story)

    def _open(self, story: Story) -> None:
        for step in story.build:
            self._do(step)
        if story.stays:
            self._homes[SOURCE].set_domains({story.owner: (1, 256)})
            self._homes[SOURCE].invoke("update_available_resource")

    def _clear(self, story: Story) -> None:
        """Of that guest nothing is left, so that the next one finds what it found."""
        for side, home in self._homes.items():
            self._do(story.deletion(side))
            home.set_domains({})
            home.invoke("update_available_resource")

    def _do(self, step: Step) -> Any:
        home = self._homes[step.side]
        if step.ahead:
            home.invoke("advance", seconds=step.ahead)
        return home.invoke(step.method, **step.document)

    def _cut_off(self, step: Step, point: str) -> None:
        """One life that ends in that step. An audit is one that every start makes too."""
        home = self._homes[step.side]
        if self._live(home, f"{point}/{step.cause}"):
            in_vain(lambda: self._do(step))
            home.wait_died()
        self._alive.discard(home)

    def _live(self, home: Home, failpoint: str = "") -> bool:
        if home in self._alive:
            home.kill()
        self._alive.discard(home)
        lives = home.start(failpoint)
        assert lives or failpoint
        if lives:
            self._alive.add(home)
        return lives

    def _paint(self, story: Story) -> Mapping[str, Any]:
        return {side: self._painter(side).paint(story) for side in self._homes}

    def _painter(self, side: str) -> Painter:
        if side not in self._painters:
            self._painters[side] = Painter(self._homes[side].url, self._homes[side].host)
        return self._painters[side]

    def close(self) -> None:
        for home in dict.fromkeys(self._homes.values()):
            home.close()
        for painter in self._painters.values():
            painter.close()
