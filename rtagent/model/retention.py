"""Retention: how long records have been kept, counted without the time of day.

A wall clock can be set by days, in either direction. So the age of a record is the time for which
the node's agents have run since it was written. The node's revisions order the records.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Self

from msgspec.structs import replace

from rtagent.model.base import Value


class Checkpoint(Value, frozen=True, kw_only=True):
    """The revision of the node when its agents had run for so many seconds."""

    revision: int
    running: float


class EndedMove(Value, frozen=True, kw_only=True):
    """When the record of an ended move was first seen. :ivar updated_at: identifies its content."""

    updated_at: datetime
    running: float


class Retention(Value, frozen=True, kw_only=True):
    """The ages of a node's records.

    :ivar running: seconds for which the node's agents have run.
    :ivar checkpoints: by revision, oldest first. :ivar moves: by the uuid of the migration.
    """

    running: float = 0.0
    checkpoints: tuple[Checkpoint, ...] = ()
    moves: Mapping[str, EndedMove] = {}

    def after(self, elapsed: float, revision: int, ended: Mapping[str, datetime]) -> Self:
        """Count the seconds for which an agent has run, and add a checkpoint of what exists now.

        :param revision: of the node. An older database that was restored has lost later revisions.
        :param ended: ``updated_at`` of the records of ended moves, by uuid.
        """
        running = self.running + elapsed
        checkpoints = tuple(each for each in self.checkpoints if each.revision <= revision)
        if not checkpoints or checkpoints[-1].revision < revision:
            checkpoints += (Checkpoint(revision=revision, running=running),)
        moves = {
            uuid: self._seen(uuid, EndedMove(updated_at=updated_at, running=running))
            for uuid, updated_at in ended.items()
        }
        return replace(self, running=running, checkpoints=checkpoints, moves=moves)

    def _seen(self, uuid: str, now: EndedMove) -> EndedMove:
        before = self.moves.get(uuid)
        return before if before and before.updated_at == now.updated_at else now

    def expired_revision(self, seconds: float) -> int:
        """Return the revision up to which every record is older than that; 0: there is none."""
        expired = (
            each.revision for each in self.checkpoints if self.running - each.running > seconds
        )
        return max(expired, default=0)

    def expired_moves(self, seconds: float) -> frozenset[str]:
        """Return the ended moves whose records are older than that."""
        return frozenset(
            uuid for uuid, move in self.moves.items() if self.running - move.running > seconds
        )

    def without(self, revision: int) -> Self:
        """Forget the checkpoints up to a revision, after everything up to it was purged."""
        later = tuple(each for each in self.checkpoints if each.revision > revision)
        return replace(self, checkpoints=later)
