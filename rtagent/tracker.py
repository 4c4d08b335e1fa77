"""ResourceTracker: the single authority on the claims of this node.

Each method that changes something submits one pure rule to the state writer, which decides it on
the current state, makes the change durable, and publishes the new state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any

from rtagent import claims
from rtagent.bus import Bus, StatePublished
from rtagent.errors import RtAgentError, StoreUnavailable, Unavailable
from rtagent.lifecycle import attach, moves, quarantine
from rtagent.lifecycle.recorded_providers import claims_with_new_providers
from rtagent.model.change import Call, Change
from rtagent.model.claim import Claim
from rtagent.model.decision import Decision
from rtagent.model.instance import InstanceUpdate
from rtagent.model.migration import TakenOver
from rtagent.model.move import MoveRequest
from rtagent.model.node_state import NodeState
from rtagent.model.policy import Policy
from rtagent.model.request import AttachRequest, BuildRequest
from rtagent.model.store_restore import StoreRestore
from rtagent.ports import Clock, NullReporter, Reporter, Store, Witness
from rtagent.reconcile.apply import apply
from rtagent.reconcile.steps import Outcome, Step
from rtagent.state.adoptions import Adoptions
from rtagent.state.announcements import Announcements
from rtagent.state.drain_operations import DrainOperations
from rtagent.state.fact_operations import FactOperations
from rtagent.state.move_operations import MoveOperations
from rtagent.state.operations import Operations, Rule
from rtagent.state.unwritten_allocations import UnwrittenAllocations
from rtagent.state.witness import MemoryWitness
from rtagent.state.writer import StateWriter

#: How many steps of an audit go into one decision, so that claims get in between.
CHUNK = 50
#: The call that a claim is tested with. Its operation id is the uuid of the claim in the answer.
TEST_CALL = Call(
    method="test_claim", operation_id="00000000-0000-0000-0000-000000000000", digest=""
)


class ResourceTracker:
    """The single writer of a node's state. Thread-safe.

    :ivar moves: the methods of moves. :ivar adoptions: those of domains without a claim.
    :ivar facts: those by which the program that embeds the tracker states facts.
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
        self.moves = MoveOperations(self._operations)
        self.drains = DrainOperations(self._operations)
        self.facts = FactOperations(self._operations)
        self.adoptions = Adoptions(self._operations, clock)
        self.unwritten = UnwrittenAllocations(self._writer, clock)

    def __repr__(self) -> str:
        status = self.fault or self._writer.status.stale or self.restored
        status = status or self._operations.suspended or "granting"
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

    def suspend_creation(self, error: Unavailable | None) -> None:
        """Answer creating calls with this error from now on; None: create claims again."""
        self._operations.suspend_creation(error)

    @property
    def unobserved(self) -> Unavailable | None:
        """Why the last audit has not observed the host, or None. Until it has, no claim is made."""
        return self._operations.unobserved

    def note_unobserved(self, part: str, error: Unavailable | None) -> None:
        """Note why an audit of a part of the host has not observed it; None: it has."""
        self._operations.note_unobserved(part, error)

    @property
    def unlisted(self) -> Unavailable | None:
        """Why the last audit has not listed the host's devices, or None. Until one has, no claim
        gets any."""
        return self._operations.unlisted

    def note_unlisted(self, error: Unavailable | None) -> None:
        """Note why an audit has not listed the devices; None: it has."""
        self._operations.unlisted = error

    # -- claims ---------------------------------------------------------------------------------

    def instance_claim(self, request: BuildRequest, call: Call, *, active: bool = False) -> Claim:
        """Claim resources for a build.

        :param active: activate the claim at once, because its domain is about to be started.
        :raises ComputeResourcesUnavailable: ClaimConflict: ClaimExpired: Unavailable:
        """
        return self._operations.create(
            lambda state, now: claims.build(state, request, call, now, active=active), call
        )

    def instance_claims(
        self, builds: Sequence[tuple[BuildRequest, Call]]
    ) -> list[Claim | RtAgentError]:
        """Claim resources for many builds, which share commits. Each is decided like a call of
        `instance_claim`, in this order, on the state that the earlier ones leave.

        :return: for each its claim, or the error that `instance_claim` would raise.
        :raises Unavailable: no claim is created at present.
        """

        def rule(request: BuildRequest, call: Call) -> Rule:
            return lambda state, now: claims.build(state, request, call, now)

        return self._operations.create_all([(rule(*build), build[1]) for build in builds])

    def test_claim(self, request: BuildRequest | AttachRequest | MoveRequest) -> Decision:
        """Decide a request on the snapshot, as `instance_claim`, `claim_pci_devices` or
        `moves.move_claim` would. Changes nothing.

        :raises Unavailable: as they would.
        """
        self._operations.check_creation()
        if down := self._writer.status.down:
            raise StoreUnavailable(down)

        def rule(state: NodeState, now: datetime) -> Decision:
            if isinstance(request, MoveRequest):
                return moves.move_claim(state, request, TEST_CALL, now)
            if isinstance(request, AttachRequest):
                return attach.claim_devices(state, request, TEST_CALL, now)
            return claims.build(state, request, TEST_CALL, now)

        return self._operations.admitted(rule)(self.snapshot(), self._clock.now())

    def activate_claim(self, claim_uuid: str, call: Call) -> Claim:
        """Activate a claim before its domain is started. A caller that receives `ClaimExpired` must
        not start the domain.

        :raises ClaimNotFound: ClaimExpired: IllegalTransition: Unavailable:
        """
        return self._operations.change(
            lambda state, now: claims.activate(state, claim_uuid, call, now), call
        )

    def renew_claim(self, claim_uuid: str, call: Call) -> Claim:
        """Renew the lease of a claim.

        :raises ClaimNotFound: ClaimExpired: IllegalTransition: Unavailable:
        """
        return self._operations.change(
            lambda state, now: claims.renew(state, claim_uuid, call, now), call
        )

    def abort_instance_claim(self, claim_uuid: str, call: Call, **more: Any) -> None:
        """Give up a build and release its claim, as `release_claim` does."""
        self._operations.execute(
            lambda state, now: claims.end(state, claim_uuid, "abort", call, now, **more), call
        )

    def abort_leased_claim(self, claim_uuid: str, call: Call) -> None:
        """Abort a claim whose lease runs, because its caller does not get it. A claim that was
        activated meanwhile stays.
        """
        self._operations.execute(
            lambda state, now: claims.end_leased(state, claim_uuid, call, now), call
        )

    def release_claim(self, claim_uuid: str, call: Call, **more: Any) -> None:
        """Release everything that the claim has. An unknown id is recorded as ended, so that a late
        creating call with that id is refused.

        :param more: ``reason`` and ``running`` of `rtagent.claims.end`.
        """
        self._operations.execute(
            lambda state, now: claims.end(state, claim_uuid, "release", call, now, **more), call
        )

    def update_usage(self, facts: InstanceUpdate, call: Call) -> None:
        """Record an instance's new state; `deleted` and `shelved_offloaded` release its claims."""
        self._operations.execute(lambda state, now: claims.update(state, facts, call, now), call)

    def build_failed(self, call: Call) -> None:
        """Count one more failed build in a row."""
        self._operations.execute(
            lambda state, now: claims.count_build(state, False, call, now), call
        )

    def build_succeeded(self, call: Call) -> None:
        """End the row of failed builds."""
        self._operations.execute(
            lambda state, now: claims.count_build(state, True, call, now), call
        )

    # -- devices --------------------------------------------------------------------------------

    def claim_pci_devices(
        self, request: AttachRequest, call: Call, *, active: bool = False
    ) -> Claim:
        """Claim devices for a guest that is here.

        :param active: activate the claim at once, because the devices are about to be attached.
        :raises ComputeResourcesUnavailable: ClaimNotFound: ClaimConflict: ClaimExpired:
        """
        return self._operations.create(
            lambda state, now: attach.claim_devices(state, request, call, now, active=active), call
        )

    def allocate_pci_devices(self, owner_id: str, claim_uuid: str, call: Call) -> Claim:
        """Activate an attach claim before its devices are attached to the guest.

        :raises ClaimNotFound: ClaimExpired: Unavailable:
        """
        return self._operations.change(
            lambda state, now: attach.activate(state, owner_id, claim_uuid, call, now), call
        )

    def end_pci_claims(
        self,
        owner_id: str,
        claim_uuid: str | None,
        verb: str,
        call: Call,
        devices: Collection[str] = (),
    ) -> None:
        """Release attach claims, or these devices of them: building ones (``unclaim``), or active
        ones (``free``).

        :raises PciDevicesNotClaimed:
        """
        self._operations.execute(
            lambda state, now: attach.end(state, owner_id, claim_uuid, verb, call, now, devices),
            call,
        )

    def set_quarantine(self, address: str, reason: str | None, call: Call) -> None:
        """Put a device into quarantine, or clear it (None). :raises PciDeviceNotFound:"""
        self._operations.execute(
            lambda state, now: quarantine.quarantine(state, address, reason, call, now), call
        )

    def once(self, call: Call, effect: Callable[[], object]) -> None:
        """Have an effect outside the state, unless the operation had it before.

        If the process ends between the effect and the record, a repeat has the effect again.

        :raises ClaimConflict: the operation id was used for another call. :raises Unavailable:
        """
        self._operations.once(call, effect)

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

    def apply(self, steps: Sequence[Step], base: NodeState) -> Outcome:
        """Apply the steps that still hold, in chunks.

        :raises StoreUnavailable: some chunks may have been applied.
        """
        outcome = Outcome()
        for chunk in _chunks(steps):
            outcome = outcome.plus(self._writer.submit(partial(self._apply, chunk, base), "audit"))
        return outcome

    def _apply(
        self, steps: Sequence[Step], base: NodeState, state: NodeState
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
        self._operations.accept_restore(revision, call)

    def check_position(self) -> None:
        """Read epoch and revision of the node's record, and make the mark durable.

        If a newer writer has raised the epoch, `fault` becomes `WriterFenced`. If the record is
        older than the snapshot, the tracker becomes `stale`.

        :raises StoreUnavailable:
        """
        self._writer.recovery.check_position()


def _chunks(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Parts of about `CHUNK` steps; a step is never separated from those that are joined to it."""
    start = 0
    while start < len(steps):
        end = start + CHUNK
        while end < len(steps) and steps[end].joined:
            end += 1
        yield steps[start:end]
        start = end
