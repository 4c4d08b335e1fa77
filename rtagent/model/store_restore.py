"""StoreRestore: a store that went back in time, and what may be missing from it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.node_state import NodeState
from rtagent.model.stored import Position


class ClaimDifference(Value, frozen=True, kw_only=True):
    """A claim whose stored state is not the one that was acknowledged.

    :ivar acknowledged: its last acknowledged state; null: it had ended, or was not made yet.
    :ivar stored: its state in the restored store; null: the store has no such live claim.
    """

    claim_uuid: str
    owner_id: str
    acknowledged: str | None
    stored: str | None

    def __str__(self) -> str:
        was, now = self.acknowledged or "ended", self.stored or "missing"
        return f"claim {self.claim_uuid} of {self.owner_id}: was {was}, is {now}"


class StoreRestore(Value, frozen=True, kw_only=True):
    """The record that the store was found to be older than what the agent had acknowledged.

    :ivar found: what the store had. :ivar acknowledged: what it should have had.
    :ivar acknowledged_at: when that was acknowledged.
    :ivar revision: the revision with which the node continued; it is beyond both.
    :ivar compared: the agent still had the acknowledged claims, so `differences` is complete.
    :ivar accepted_at: when an operator accepted the restored store; None: not yet.
    """

    found: Position
    acknowledged: Position
    acknowledged_at: datetime
    noticed_at: datetime
    revision: int
    compared: bool
    differences: tuple[ClaimDifference, ...] = ()
    accepted_at: datetime | None = None

    def __str__(self) -> str:
        """Return one sentence: what went back, and how many claims differ."""
        lost = "the agent does not know which claims may be missing"
        if self.compared:
            lost = f"{len(self.differences)} claims differ from what was acknowledged"
        return (
            f"the database went back from revision {self.acknowledged.revision}"
            f" (epoch {self.acknowledged.epoch}, acknowledged at {_text(self.acknowledged_at)})"
            f" to revision {self.found.revision} (epoch {self.found.epoch}), as when a backup is"
            f" restored, which was noticed at {_text(self.noticed_at)}; {lost}"
        )

    def after(self, earlier: StoreRestore | None) -> StoreRestore:
        """Return this restore together with an earlier one that was not accepted: the first
        difference of each claim counts, because it has what was acknowledged to callers.
        """
        if earlier is None or earlier.accepted_at is not None:
            return self
        if (earlier.acknowledged, earlier.found.revision) == (
            self.acknowledged,
            self.found.revision,
        ):
            # The same restore: the agent ended after it had kept this record.
            return replace(earlier, revision=self.revision)
        known = {each.claim_uuid for each in earlier.differences}
        new = (each for each in self.differences if each.claim_uuid not in known)
        return replace(
            self,
            compared=self.compared and earlier.compared,
            differences=(*earlier.differences, *new),
        )


def claim_differences(acknowledged: NodeState, stored: NodeState) -> Iterator[ClaimDifference]:
    """Compare the claims of two states, by uuid: what is missing, what came back, what changed."""
    for uuid in sorted({*acknowledged.claims, *stored.claims}):
        was, now = acknowledged.claims.get(uuid), stored.claims.get(uuid)
        either = was or now
        assert either is not None
        if was is None or now is None or (was.state, was.revision) != (now.state, now.revision):
            yield ClaimDifference(
                claim_uuid=uuid,
                owner_id=either.owner_id,
                acknowledged=None if was is None else was.state,
                stored=None if now is None else now.state,
            )


def _text(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="seconds")
