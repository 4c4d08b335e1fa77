"""Restoration: notices a restored store, and refuses new claims until it is accepted."""

import threading
from datetime import datetime

from msgspec.structs import replace

from rtagent.errors import RestoreNotFound, StoreRestored
from rtagent.model.node_state import NodeState
from rtagent.model.store_restore import StoreRestore, claim_differences
from rtagent.model.stored import Position
from rtagent.ports import Clock, Mark, Reporter, Witness


class MemoryWitness:
    """A `Witness` that lasts as long as the process."""

    def __init__(self) -> None:
        self.mark: Mark | None = None
        self.restore: StoreRestore | None = None

    def record(self, mark: Mark) -> None:
        self.mark = mark

    def keep(self, restore: StoreRestore) -> None:
        self.restore = restore

    def sync(self) -> None:
        """Do nothing, because nothing is written."""


#: How many claims are logged that differ from what was acknowledged; all of them are kept.
LOGGED = 50


class Restoration:
    """Compares the store with what was acknowledged. Thread-safe."""

    def __init__(self, witness: Witness, clock: Clock, reporter: Reporter) -> None:
        self._witness, self._clock = witness, clock
        self._reporter = reporter.named(__name__)
        self._lock = threading.Lock()  # a restore may be noticed while another is accepted
        self._logged: StoreRestore | None = None

    @property
    def pending(self) -> StoreRestore | None:
        """The restored store that no operator has accepted yet, or None."""
        restore = self._witness.restore
        return None if restore is None or restore.accepted_at is not None else restore

    @property
    def acknowledged(self) -> Position | None:
        """The highest position that was acknowledged, or None if nothing is remembered."""
        mark = self._witness.mark
        return None if mark is None else mark.position

    def check(self) -> None:
        """:raises StoreRestored: no claim may be created: a restored store awaits acceptance."""
        if (restore := self.pending) is not None:
            raise StoreRestored(restored=str(restore), revision=restore.revision)

    def record(self, position: Position, at: datetime) -> None:
        """Remember a position that is about to be acknowledged."""
        self._witness.record(Mark(position=position, at=at))

    def sync(self) -> None:
        """Make what is remembered durable."""
        self._witness.sync()

    def behind(self, found: Position) -> bool:
        """Return whether a store at that position is older than what was acknowledged."""
        return self.acknowledged is not None and found.behind(self.acknowledged)

    def notice(self, known: NodeState, stored: NodeState, found: Position) -> int | None:
        """Compare a loaded state with what was acknowledged. If the store went back, keep a record
        of that, and return the revision with which the node has to continue.

        :param known: the state that was published before the load.
        :param found: the position of the store before the load raised its epoch.
        :raises StoreUnavailable: the record cannot be made durable; nothing may be continued.
        """
        mark = self._witness.mark
        if mark is None:
            return None
        compared = not known.position.behind(mark.position)
        differences = tuple(claim_differences(known, stored)) if compared else ()
        same_revision = compared and stored.revision == known.revision
        other_rows = same_revision and any(
            not _is_damaged(each.claim_uuid, known, stored) for each in differences
        )
        if not found.behind(mark.position) and not other_rows:
            return None
        restore = StoreRestore(
            found=found,
            acknowledged=mark.position,
            acknowledged_at=mark.at,
            noticed_at=self._clock.now(),
            revision=max(mark.position.revision, stored.revision) + 1,
            compared=compared,
            differences=differences,
        )
        with self._lock:
            self._witness.keep(restore.after(self._witness.restore))
        return restore.revision

    def accept(self, revision: int) -> None:
        """Accept the restored store that continued with this revision. Idempotent.

        :raises RestoreNotFound: another one awaits acceptance, or none.
        :raises StoreUnavailable: the acceptance cannot be made durable.
        """
        with self._lock:
            restore = self._witness.restore
            if restore is None or restore.revision != revision:
                waiting = self.pending
                pending = "none" if waiting is None else f"revision {waiting.revision}"
                raise RestoreNotFound(revision=revision, pending=pending)
            if restore.accepted_at is None:
                self._witness.keep(replace(restore, accepted_at=self._clock.now()))
        self._reporter.log("warning", f"accepted by an operator: {restore}")
        self.report()

    def report(self) -> None:
        """Report the health of a reachable store. Log a restored store once."""
        if (restore := self.pending) is None:
            self._reporter.health("store", "pass")
            return
        remedy = "rtagent node accept-restore lists them, and accepts the database as it is"
        self._reporter.health("store", "fail", f"{restore}: {remedy}")
        if restore is not self._logged:
            self._logged = restore
            self._log(restore)

    def _log(self, restore: StoreRestore) -> None:
        self._reporter.log("error", f"{restore}: no new claims until an operator accepts it")
        for difference in restore.differences[:LOGGED]:
            self._reporter.log("error", str(difference))
        if (more := len(restore.differences) - LOGGED) > 0:
            listing = "rtagent node accept-restore lists them"
            self._reporter.log("error", f"{more} more claims differ: {listing}")


def _is_damaged(claim_uuid: str, *states: NodeState) -> bool:
    """Return whether the claim differs because its row was damaged. It is quarantined then, and
    reported as damage.
    """
    found = (state.claims.get(claim_uuid) for state in states)
    return any(claim is not None and claim.quarantined for claim in found)
