"""Step: one call of an operation, with its undo. An operation is a table of steps."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.conductor.run import Run
from rtagent.model.base import Value
from rtagent.model.server import Server

Action = Callable[[Run], None]


class Step(Value, frozen=True, kw_only=True):
    """One step.

    :ivar do: makes the call. It may be repeated, also after the process was killed at any point.
    :ivar undo: removes the effect of `do`, whether it had one or not. It may be repeated.
    :ivar stops: if its outcome is unknown, the operation stops, and is not undone but resumed.
    :ivar final: after it, the operation is not undone any more. It stops as well.
    """

    name: str
    do: Action
    undo: Action | None = None
    stops: bool = False
    final: bool = False


class Table(Value, frozen=True, kw_only=True):
    """The steps of a kind of operation, in order.

    :ivar done: returns the server after the operation; None: it is deleted.
    :ivar failed: returns the server after the operation was undone.
    :ivar only_forward: the operation is never undone.
    :ivar alone: the operation does not change its server, which may be gone.
    """

    kind: str
    steps: tuple[Step, ...]
    done: Callable[[Run], Server | None]
    failed: Callable[[Run], Server | None]
    only_forward: bool = False
    alone: bool = False

    def position(self, name: str) -> int:
        """Return the index of a step."""
        return next(at for at, step in enumerate(self.steps) if step.name == name)

    def can_be_undone(self, at: int) -> bool:
        """Return whether the operation can be undone while the step of this index is made."""
        return not self.only_forward and not any(step.final for step in self.steps[:at])
