"""The agents at the two sides of a move, which may be the same agent."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.crash.move_sequences import SOURCE, MoveSequence, Step
from tests.crash.restarts import DURABLE
from tests.crash.scenario import call_in_background, noted
from tests.crash.snapshot import SnapshotReader
from tests.support.workload.deployment import Home

#: For each step: its answer, and the content of the databases after it.
Recording = Sequence[tuple[Any, Any]]


class MoveAgents:
    """Run move sequences on agents. :param homes: deployments by side."""

    def __init__(self, homes: Mapping[str, Home]) -> None:
        self._homes = homes
        self._readers: dict[str, SnapshotReader] = {}
        self._alive: set[Home] = set()
        for home in dict.fromkeys(homes.values()):
            self._start(home)

    @property
    def two(self) -> bool:
        """Whether the sides are two agents."""
        return len(set(self._homes.values())) == 2

    def record(self, sequence: MoveSequence) -> Recording:
        """Run the sequence undisturbed; return the answers and the content of the databases."""
        self._open(sequence)
        recording = [
            (sequence.comparable(self._do(step)), self._snapshot(sequence))
            for step in sequence.steps
        ]
        self._clear(sequence)
        return recording

    def replay(
        self, sequence: MoveSequence, recording: Recording, points: Sequence[Iterable[str]]
    ) -> None:
        """Run it again, kill the agent at these points of each step and repeat the step.

        Every answer and the databases must be as recorded.

        :param points: of each step, the durable one last.
        """
        self._open(sequence)
        before = self._snapshot(sequence)
        planned = zip(sequence.steps, recording, points, strict=True)
        for step, (answer, after), at in planned:
            with noted(f"{step.method} at the {step.side}"):
                for point in at:
                    self._cut_off(step, point)
                    assert self._snapshot(sequence) == (after if point in DURABLE else before)
                if self._homes[step.side] not in self._alive:
                    self._start(self._homes[step.side])
                assert sequence.comparable(self._do(step)) == answer
                assert self._snapshot(sequence) == after
            before = after
        self._clear(sequence)

    def _open(self, sequence: MoveSequence) -> None:
        for step in sequence.build:
            self._do(step)
        if sequence.stays:
            self._homes[SOURCE].set_domains({sequence.owner: (1, 256)})
            self._homes[SOURCE].invoke("update_available_resource")

    def _clear(self, sequence: MoveSequence) -> None:
        """Delete the guest at both sides, so that the next sequence starts from the same state."""
        for side, home in self._homes.items():
            self._do(sequence.deletion(side))
            home.set_domains({})
            home.invoke("update_available_resource")

    def _do(self, step: Step) -> Any:
        home = self._homes[step.side]
        if step.ahead:
            home.invoke("advance", seconds=step.ahead)
        return home.invoke(step.method, **step.document)

    def _cut_off(self, step: Step, point: str) -> None:
        """Start an agent that is killed during that step. An audit is made by each start, too."""
        home = self._homes[step.side]
        if self._start(home, f"{point}/{step.cause}"):
            call_in_background(lambda: self._do(step))
            home.wait_died()
        self._alive.discard(home)

    def _start(self, home: Home, failpoint: str = "") -> bool:
        if home in self._alive:
            home.kill()
        self._alive.discard(home)
        alive = home.start(failpoint)
        assert alive or failpoint
        if alive:
            self._alive.add(home)
        return alive

    def _snapshot(self, sequence: MoveSequence) -> Mapping[str, Any]:
        return {side: self._reader(side).read(sequence) for side in self._homes}

    def _reader(self, side: str) -> SnapshotReader:
        if side not in self._readers:
            self._readers[side] = SnapshotReader(self._homes[side].url, self._homes[side].host)
        return self._readers[side]

    def close(self) -> None:
        for home in dict.fromkeys(self._homes.values()):
            home.close()
        for reader in self._readers.values():
            reader.close()
