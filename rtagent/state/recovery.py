"""Recovery: reloads a stale state, and detects a newer writer and a store that went back."""

from msgspec.structs import replace

from rtagent import errors
from rtagent.bus import Bus, StatePublished
from rtagent.model.change import Change
from rtagent.model.node_state import NodeState, restore
from rtagent.model.stored import Position
from rtagent.ports import Clock, Reporter, Store
from rtagent.state.published import Leases, PublishedState, WriterStatus
from rtagent.state.restoration import Restoration


class StateRecovery:
    """Brings the published state back to what the database has."""

    def __init__(
        self,
        store: Store,
        published: PublishedState,
        status: WriterStatus,
        leases: Leases,
        restoration: Restoration,
        bus: Bus,
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        self._store, self._published, self._status = store, published, status
        self._leases, self._restoration, self._clock = leases, restoration, clock
        self._bus, self._reporter = bus, reporter.named(__name__)
        self._enrolled_at: Position | None = None

    def begin(self, state: NodeState) -> None:
        """Check the state that the enrollment has loaded. If it is older than what was
        acknowledged, it becomes stale, and `recover` continues it.
        """
        # The enrollment has raised the epoch by one.
        found = Position(epoch=state.epoch - 1, revision=state.revision)
        if self._restoration.behind(found):
            self._enrolled_at = found
            self._status.go_stale(_older(found, self._restoration.acknowledged))
            return
        self._verify(state)
        self._report(state)
        self._restoration.record(state.position, self._clock.now())
        if self._restoration.pending is not None:
            self._restoration.report()

    def recover(self) -> bool:
        """Reload the state once, if it is stale. The caller repeats this, with back-off, until it
        returns True."""
        with self._published.replacing:
            if not self._status.stale:
                return True
            if isinstance(self._status.fault, errors.WriterFenced):
                return False
            outcome = self._replace()
        # Reports are made without the lock, because a log may be slow.
        if isinstance(outcome, errors.WriterFenced):
            return False
        if isinstance(outcome, errors.RtAgentError):
            self._reporter.health("store", "fail", outcome.message)
            return False
        self._restoration.report()
        self._report(outcome)
        self._reporter.log("info", f"the state is that of the store again: {outcome!r}")
        self._bus.publish(StatePublished(state=self._published.current, changes=()))
        return True

    def check_position(self) -> None:
        """Read epoch and revision of the node's record, and make the mark durable.

        If a newer writer has raised the epoch, the fault becomes `WriterFenced`. If the record is
        gone or older than what was published, the state becomes stale.

        :raises StoreUnavailable:
        """
        state = self._published.current  # before the read, which finds this position or a later one
        found = self._store.position(state.node.uuid)
        if self._status.stale:
            return  # a reload of our own may have raised the epoch
        if found is None or found.behind(state.position):
            self._status.go_stale(_older(found, state.position))
            self._reporter.health("store", "fail", self._status.stale)
            return
        self._restoration.sync()
        # Staleness ends after the new state is published: a reload that has ended shows here.
        if found.epoch > state.epoch == self._published.current.epoch:
            fenced = errors.WriterFenced(
                node_uuid=state.node.uuid, ours=state.epoch, theirs=found.epoch
            )
            self._status.fail(fenced)
            self.report_fault()

    def report_fault(self) -> None:
        """Report the fault, if there is one."""
        fault = self._status.fault
        if fault is not None:
            self._reporter.health("tracker", "fail", fault.message)
            self._reporter.log("error", fault.message)

    def _replace(self) -> NodeState | errors.RtAgentError:
        """Replace the published state with the loaded one, which is returned, or the failure."""
        try:
            state = self._reload()
        except errors.WriterFenced as error:
            self._status.fail(error)
            return error
        except (errors.StoreUnavailable, errors.StoreError) as error:
            return error
        self._verify(state)
        self._enrolled_at = None
        self._published.current = state
        self._leases.begin(state)
        self._restoration.record(state.position, self._clock.now())
        self._status.reloaded()
        return state

    def _reload(self) -> NodeState:
        """Load the state. If the store went back, continue beyond what was acknowledged, so that no
        revision is used twice.

        :raises StoreUnavailable: StoreError: WriterFenced:
        """
        known, acknowledged = self._published.current, self._restoration.acknowledged
        uuid = known.node.uuid
        found = self._enrolled_at or self._store.position(uuid) or Position(epoch=0, revision=0)
        epoch = max(known.epoch, acknowledged.epoch if acknowledged else 0)
        loaded = restore(self._store.reload(uuid, epoch), known.policy)
        # A commit in flight may have ended after the first read.
        found = replace(found, revision=loaded.revision)
        revision = self._restoration.notice(known, loaded, found)
        if revision is None:
            return loaded
        continued = replace(loaded, revision=revision, floor=revision)
        change = Change(cause="restore", at=self._clock.now())
        self._store.commit(loaded, continued, [change])
        return continued

    def _verify(self, state: NodeState) -> None:
        """Check every invariant of a loaded state. If one is violated, no claim is granted."""
        try:
            state.check()
        except errors.InvariantViolated as error:
            self._status.fail(error)

    def _report(self, state: NodeState) -> None:
        """Report the damage that a load has found, and a violated invariant."""
        for sentence in state.damage:
            self._reporter.log("error", sentence)
        if state.damage:
            first = f"{len(state.damage)} damaged rows: {state.damage[0]}"
            self._reporter.health("records", "warn", first)
        if isinstance(self._status.fault, errors.InvariantViolated):
            self._reporter.health("tracker", "fail", self._status.fault.message)


def _older(found: Position | None, acknowledged: Position | None) -> str:
    """The reason why a state is stale: the store is older than what was acknowledged."""
    now = "has no record of the node" if found is None else f"is at {_text(found)}"
    was = "more" if acknowledged is None else _text(acknowledged)
    return f"the database {now}, but {was} was acknowledged: it went back in time"


def _text(position: Position) -> str:
    return f"revision {position.revision} (epoch {position.epoch})"
