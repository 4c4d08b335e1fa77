"""The rows that a store has for one node, as values.

Retention: how long records have been kept, counted without the time of day.

A wall clock can be set by days, in either direction. So the age of a record is the time for which
the node's agents have run since it was written. The node's revisions order the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Self

from msgspec.structs import replace

from rtagent.model.assignment import ResourceInventory
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.consumers import OutboxRow
from rtagent.model.device import PciDevice
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.migration import Migration
from rtagent.model.node import Drain, Node, Ratios
from rtagent.model.topology import Topology


class Position(Value, frozen=True, kw_only=True):
    """Epoch and revision of a node's record. Both only grow, so a record that has less of either
    than an agent has acknowledged is an older copy.
    """

    epoch: int
    revision: int

    def behind(self, other: Position) -> bool:
        """Return whether epoch or revision is less than the other's."""
        return self.epoch < other.epoch or self.revision < other.revision


class Stored(Value, frozen=True, kw_only=True):
    """Everything that a store has for one node. Released claims are not included.

    :ivar epoch: the epoch of the writer that read the rows.
    :ivar ratios: allocation ratios of the node's record.
    :ivar disk_available_least: GB. :ivar rebooted_at: see `NodeRecord`.
    :ivar event_sequence: the number of the last event.
    :ivar damage: a sentence for each damaged row. What the row may hold is in the other fields.
    :ivar unknown: reasons why it is not known what is held. Nothing must be granted then.
    """

    node: Node
    revision: int
    epoch: int
    claims: tuple[Claim, ...] = ()
    domain_usages: tuple[DomainUsage, ...] = ()
    migrations: tuple[Migration, ...] = ()
    devices: tuple[PciDevice, ...] = ()
    resource_inventories: tuple[ResourceInventory, ...] = ()
    topology: Topology | None = None
    ratios: Ratios = Ratios()
    failed_builds: int = 0
    disk_available_least: int | None = None
    drain: Drain | None = None
    rebooted_at: datetime | None = None
    outbox: tuple[OutboxRow, ...] = ()
    event_sequence: int = 0
    damage: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


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
