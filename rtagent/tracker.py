"""ResourceTracker: the single authority on the claims of this node.

What changes something is a pure rule: those of claims are in `rtagent.claims`, those of moves,
devices and of facts that a program states in `rtagent.lifecycle`. `create`, `change` and `execute`
submit a rule to the state writer, which decides it on the current state, makes the change durable,
and publishes the new state::

    claim = tracker.create(claims.instance_claim, call, request)
    tracker.execute(claims.release_claim, another_call, claim.uuid)
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from rtagent.bus import Bus, StatePublished
from rtagent.errors import RtAgentError, StoreUnavailable
from rtagent.lifecycle import moves
from rtagent.lifecycle.consequences import unchanged
from rtagent.lifecycle.placed_guests import claims_with_new_providers
from rtagent.model.change import Call, Change
from rtagent.model.claim import Claim
from rtagent.model.decision import Decision, Granted, Rule
from rtagent.model.migration import TakenOver
from rtagent.model.node_state import NodeState
from rtagent.model.policy import Policy
from rtagent.model.store_restore import StoreRestore
from rtagent.ports import Clock, NullReporter, Reporter, Store, Witness
from rtagent.reconcile.plan import apply
from rtagent.reconcile.steps import AuditStep, Outcome
from rtagent.state.announcements import Announcements
from rtagent.state.operations import Creation, Operations, bound
from rtagent.state.restoration import MemoryWitness
from rtagent.state.writer import StateWriter, UnwrittenAllocations

P = ParamSpec("P")
D = TypeVar("D", bound=Decision)
T = TypeVar("T")

#: How many steps of an audit go into one decision, so that claims get in between.
CHUNK = 50
#: The call that a claim is tested with. Its operation id is the uuid of the claim in the answer.
TEST_CALL = Call(
    method="test_claim", operation_id="00000000-0000-0000-0000-000000000000", digest=""
)


class ResourceTracker:
    """The single writer of a node's state. Thread-safe.

    :ivar creation: whether claims are created at present.
    :ivar announcements: events that are not part of a change.
    :ivar bus: gets `StatePublished`, `CallRefused`, `WriterDown` and `AnnouncementWaits`.
    :ivar unwritten: the consumers whose allocations have to be written to Placement.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        state: NodeState,
        reporter: Reporter | None = None,
        *,
        witness: Witness | None = None,
        timeout: float = 30.0,
        settlement: float = 5.0,
        bus: Bus | None = None,
    ) -> None:
        """:param witness: remembers outside of the store what was acknowledged; by default for as
            long as the process lasts.
        :param timeout: seconds that a call may wait for its turn, and :param settlement: for the
            database, if the outcome of its commit is unknown.
        :param bus: gets what happens; None: an own one.
        """
        self._store, self._clock = store, clock
        reporter, witness = reporter or NullReporter(), witness or MemoryWitness()
        self.bus = bus or Bus()
        self._writer = StateWriter(
            store, clock, state, reporter, witness, timeout, settlement, self.bus
        )
        self.announcements = Announcements(self._writer, clock, reporter)
        self._operations = Operations(self._writer, store, clock, reporter)
        self.creation = Creation(self._writer)
        self.unwritten = UnwrittenAllocations(self._writer, clock)

    def __repr__(self) -> str:
        status = self.fault or self._writer.status.stale or self.restored
        status = status or self.creation.suspended or "granting"
        return f"<ResourceTracker {self.snapshot()!r} {status}>"

    # -- state ----------------------------------------------------------------------------------

    def snapshot(self) -> NodeState:
        """The last published state. Immutable; takes no lock."""
        return self._writer.published.current

    @property
    def stale(self) -> bool:
        """The store is down or the outcome of a commit is unknown: snapshots may be behind, and
        every change is refused."""
        return bool(self._writer.status.stale)

    @property
    def fault(self) -> RtAgentError | None:
        """`WriterFenced`: the process must stop. `InvariantViolated`: no claim is granted."""
        return self._writer.status.fault

    @property
    def restored(self) -> StoreRestore | None:
        """The store went back in time, and no operator has accepted that: claims are not created,
        and audits release nothing."""
        return self._writer.restoration.pending

    @property
    def waiting(self) -> int:
        """How many calls are queued behind the commit that is under way."""
        return self._writer.waiting

    def listen(self, listener: Callable[[NodeState, Sequence[Change]], object]) -> None:
        """Call `listener` with each `StatePublished` of the bus. It must return at once."""
        self.bus.subscribe(StatePublished, lambda event: listener(event.state, event.changes))

    # -- calls ----------------------------------------------------------------------------------

    def create(self, rule: Rule[P], call: Call, *args: P.args, **kwargs: P.kwargs) -> Claim:
        """Create a claim, whose uuid is the operation id. A repeat returns the claim as it is now.

        :raises ComputeResourcesUnavailable: refused. :raises NodeDraining: of a new claim.
        :raises ClaimExpired: a repeat, and the claim has ended.
        :raises ClaimConflict: the operation id was used for another call. :raises Unavailable:
        :raises RequestError: what the rule raises.
        """
        self.creation.check()
        decide = bound(self.creation.admitted(rule), call, *args, **kwargs)
        return self._operations.run(decide, call)[0]

    def create_all(
        self,
        rule: Callable[[NodeState, Call, datetime, T], Decision],
        requests: Sequence[tuple[Call, T]],
    ) -> list[Claim | RtAgentError]:
        """Create many claims, which share commits. Each is decided as by `create`, in this order,
        on the state that the earlier ones leave.

        :return: for each its claim, or the error that `create` would raise.
        :raises Unavailable: no claim is created at present.
        """
        self.creation.check()
        rule = self.creation.admitted(rule)
        return self._operations.run_all([(bound(rule, *each), each[0]) for each in requests])

    def test_claim(
        self,
        rule: Callable[Concatenate[NodeState, Call, datetime, P], D],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> D:
        """Decide a rule that creates a claim on the snapshot, as `create` would. Changes nothing.

        :raises Unavailable: as `create`. :raises RequestError: what the rule raises.
        """
        self.creation.check()
        if down := self._writer.status.down:
            raise StoreUnavailable(down)
        rule = self.creation.admitted(rule)
        return rule(self.snapshot(), TEST_CALL, self._clock.now(), *args, **kwargs)

    def change(self, rule: Rule[P], call: Call, *args: P.args, **kwargs: P.kwargs) -> Claim:
        """Change a claim; a repeat returns the claim as it is now.

        :raises ClaimExpired: the claim has ended. :raises ClaimNotFound:
        :raises ClaimConflict: the operation id was used for another call. :raises Unavailable:
        :raises RequestError: what the rule raises.
        """
        return self._operations.run(bound(rule, call, *args, **kwargs), call)[0]

    def execute(self, rule: Rule[P], call: Call, *args: P.args, **kwargs: P.kwargs) -> None:
        """Make a change whose caller needs no claim in the answer.

        :raises ClaimConflict: the operation id was used for another call. :raises Unavailable:
        :raises RequestError: what the rule raises.
        """
        self._operations.run(bound(rule, call, *args, **kwargs), call, answers=False)

    def once(self, call: Call, effect: Callable[[], object]) -> None:
        """Have an effect outside the state, unless the operation had it before.

        If the process ends between the effect and the record, a repeat has the effect again.

        :raises ClaimConflict: the operation id was used for another call. :raises Unavailable:
        """
        if self._operations.record(call.operation_id) is None:
            effect()
        self.execute(_record, call)

    # -- audits and the operator ------------------------------------------------------------------

    def set_policy(self, policy: Policy, *, anew: bool = False) -> None:
        """Set reserves and ratios. What is held stays held (P10). Claims name the providers that
        the policy has adopted.

        :param anew: write the node's row even if they are unchanged.
        """

        def decide(state: NodeState) -> tuple[Change | None, None]:
            now = self._clock.now()
            if not anew and policy == state.policy:
                return None, None
            puts = claims_with_new_providers(state, policy, now)
            return Change(cause="policy", at=now, policy=policy, puts=puts), None

        self._writer.submit(decide, "policy")

    def observing(self) -> AbstractContextManager[NodeState]:
        """The base of an audit. As long as the context lasts, touched keys stay noted."""
        return self._writer.published.observing()

    def apply(self, steps: Sequence[AuditStep], base: NodeState) -> Outcome:
        """Apply the steps that still hold, in chunks.

        :raises StoreUnavailable: some chunks may have been applied.
        """
        outcome = Outcome()
        for chunk in _chunks(steps):
            outcome = outcome.plus(self._writer.submit(partial(self._apply, chunk, base), "audit"))
        return outcome

    def _apply(
        self, steps: Sequence[AuditStep], base: NodeState, state: NodeState
    ) -> tuple[Change | None, Outcome]:
        return apply(state, steps, base.revision, self._clock.now())

    def evacuated(self) -> Mapping[str, TakenOver]:
        """Claims whose guests other nodes have taken over, by uuid. None in a restored store, whose
        records may be older than the guests' return.

        :raises StoreUnavailable:
        """
        return {} if self.restored else self._store.evacuated(self.snapshot().node.uuid)

    def purge_moves(self, expired: Collection[str]) -> int:
        """Remove these records of moves, if they have ended; how many were removed.

        :param expired: uuids of migrations. :raises StoreUnavailable: TrackerBusy:
        """

        def decide(state: NodeState) -> tuple[Change | None, int]:
            change = moves.purge(state, expired, self._clock.now())
            return change, len(change.migration_removals) if change else 0

        purged: int = self._writer.submit(decide, "purge")
        return purged

    def lapsed(self) -> frozenset[str]:
        """Claims whose lease has lapsed, by the monotonic clock. None in a restored store, which
        may have lost that a claim was activated."""
        return frozenset() if self.restored else self._writer.leases.lapsed()

    def restart_leases(self) -> None:
        """Let every lease run a full term again: store or hypervisor were away."""
        self._writer.leases.restart(self.snapshot().policy.claim_expiry_time)

    def recover(self) -> bool:
        """Reload the state once, if it is stale. The caller repeats this, with back-off, until it
        returns True."""
        return self._writer.recovery.recover()

    def accept_restore(self, revision: int, call: Call) -> None:
        """Accept the restored store that continued with this revision: create claims again.

        :raises RestoreNotFound: another one awaits acceptance, or none.
        :raises StoreUnavailable: the acceptance is not durable.
        """

        def accept() -> None:
            self.restart_leases()
            self._writer.restoration.accept(revision)

        self.once(call, accept)

    def check_position(self) -> None:
        """Read epoch and revision of the node's record, and make the mark durable.

        If a newer writer has raised the epoch, `fault` becomes `WriterFenced`. If the record is
        older than the snapshot, the tracker becomes `stale`.

        :raises StoreUnavailable:
        """
        self._writer.recovery.check_position()


def _record(_: NodeState, call: Call, now: datetime) -> Granted:
    """The rule of a call that changes nothing here."""
    return unchanged(call, now)


def _chunks(steps: Sequence[AuditStep]) -> Iterator[Sequence[AuditStep]]:
    """Parts of about `CHUNK` steps; a step is never separated from those that are joined to it."""
    start = 0
    while start < len(steps):
        end = start + CHUNK
        while end < len(steps) and steps[end].joined:
            end += 1
        yield steps[start:end]
        start = end
