"""ResourceTracker: who holds what on this node; every verb of a claim's life.

Each public verb hands one pure rule of `claims` to the kernel, which decides it on the state of the
moment, makes it durable, and publishes it. One operation id has one effect: its row is written in
the same transaction as the change, and answers a repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial

from rtagent import attach, claims, moves, quarantine
from rtagent.errors import (
    ChangeRejected,
    ClaimConflict,
    ClaimExpired,
    ClaimNotFound,
    CommitUnknown,
    ComputeResourcesUnavailable,
    InvalidRequest,
    InvariantViolated,
    NodeNotReady,
    RequestError,
    RtAgentError,
    StoreError,
    StoreUnavailable,
    Unavailable,
)
from rtagent.kernel import Kernel, Listener
from rtagent.leases import Leases
from rtagent.model.change import Call, Change, Operation
from rtagent.model.claim import Claim
from rtagent.model.decision import Decision, Granted, Refused
from rtagent.model.host import HostState
from rtagent.model.instance import InstanceUpdate
from rtagent.model.migration import TakenOver
from rtagent.model.move import MoveRequest
from rtagent.model.policy import Policy
from rtagent.model.request import AttachRequest, BuildRequest
from rtagent.moving import MoveVerbs
from rtagent.ports import Clock, Reporter, Silence, Store
from rtagent.reconcile.apply import apply
from rtagent.reconcile.step import Outcome, Step
from rtagent.transitions import unchanged

#: How many steps of an audit go into one decision, so that claims get in between.
CHUNK = 50


class ResourceTracker(MoveVerbs):
    """The single writer of a node's state. Thread-safe."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        state: HostState,
        reporter: Reporter | None = None,
        *,
        timeout: float = 30.0,
    ) -> None:
        """:param timeout: seconds that a call may wait for its turn."""
        self._store, self._clock = store, clock
        self._reporter: Reporter = reporter or Silence()
        self._leases = Leases(clock, state)
        self._kernel = Kernel(store, clock, state, self._reporter, timeout, self._note)
        self._held_back: Unavailable | None = None

    def __repr__(self) -> str:
        status = self.fault or self._kernel.stale or self._held_back or "granting"
        return f"<ResourceTracker {self.snapshot()!r} {status}>"

    # -- what it is -----------------------------------------------------------------------------

    def snapshot(self) -> HostState:
        """The last published state. Immutable; takes no lock."""
        return self._kernel.state

    @property
    def stale(self) -> bool:
        """The store is down or an outcome unknown: snapshots may be behind, writes are refused."""
        return bool(self._kernel.stale)

    @property
    def fault(self) -> RtAgentError | None:
        """`WriterFenced`: the process must stop. `InvariantViolated`: nothing more is granted."""
        return self._kernel.fault

    @property
    def waiting(self) -> int:
        """How many calls are queued behind the commit that is under way."""
        return self._kernel.waiting

    def listen(self, listener: Listener) -> None:
        """Have `listener` told of every publication, off the lock; it must return at once."""
        self._kernel.listen(listener)

    def hold_back(self, error: Unavailable | None) -> None:
        """Answer creating calls with this error from now on; None: grant again."""
        self._held_back = error

    # -- claims ---------------------------------------------------------------------------------

    def instance_claim(self, request: BuildRequest, call: Call) -> Claim:
        """Hold resources for a build.

        :raises ComputeResourcesUnavailable: ClaimConflict: ClaimExpired: Unavailable:
        """
        self._may_create()
        return self._call(lambda s, now: claims.build(s, request, call, now), call)[0]

    def test_claim(self, request: BuildRequest | AttachRequest | MoveRequest) -> Decision:
        """The answer that `instance_claim`, `claim_pci_devices` or `move_claim` would have now,
        from the snapshot; changes nothing.

        :raises StoreUnavailable: as they would.
        """
        self._may_create()
        if self._kernel.down:
            raise StoreUnavailable(self._kernel.down)
        state, now = self.snapshot(), self._clock.now()
        if isinstance(request, MoveRequest):
            return moves.move_claim(state, request, _test(request.build.claim_uuid), now)
        test = _test(request.claim_uuid)
        if isinstance(request, AttachRequest):
            return attach.claim_devices(state, request, test, now)
        return claims.build(state, request, test, now)

    def activate_claim(self, claim_uuid: str, call: Call) -> Claim:
        """Answered before the domain is started. :raises ClaimNotFound: ClaimExpired:"""
        return self._call(lambda s, now: claims.activate(s, claim_uuid, call, now), call)[0]

    def renew_claim(self, claim_uuid: str, call: Call) -> Claim:
        """A new lease. :raises ClaimNotFound: ClaimExpired:"""
        return self._call(lambda s, now: claims.renew(s, claim_uuid, call, now), call)[0]

    def abort_instance_claim(self, claim_uuid: str, call: Call) -> None:
        """Release whatever the claim holds; of an id never seen, refuse it for ever."""
        self._call(
            lambda s, now: claims.end(s, claim_uuid, "abort", call, now), call, answers=False
        )

    def release_claim(self, claim_uuid: str, call: Call) -> None:
        """Release whatever the claim holds."""
        self._call(
            lambda s, now: claims.end(s, claim_uuid, "release", call, now), call, answers=False
        )

    def update_usage(self, news: InstanceUpdate, call: Call) -> None:
        """An instance's new state; `deleted` and `shelved_offloaded` release."""
        self._call(lambda s, now: claims.update(s, news, call, now), call, answers=False)

    def build_failed(self, call: Call) -> None:
        """One more failed build in a row."""
        self._call(lambda s, now: claims.count_build(s, False, call, now), call, answers=False)

    def build_succeeded(self, call: Call) -> None:
        """The row of failed builds ends."""
        self._call(lambda s, now: claims.count_build(s, True, call, now), call, answers=False)

    # -- devices --------------------------------------------------------------------------------

    def claim_pci_devices(self, request: AttachRequest, call: Call) -> Claim:
        """Hold devices for a guest that is here.

        :raises ComputeResourcesUnavailable: ClaimNotFound: ClaimConflict: ClaimExpired:
        """
        self._may_create()
        return self._call(lambda s, now: attach.claim_devices(s, request, call, now), call)[0]

    def allocate_pci_devices(self, owner_id: str, claim_uuid: str, call: Call) -> Claim:
        """Answered before they are given to the guest. :raises ClaimNotFound: ClaimExpired:"""
        return self._call(lambda s, now: attach.activate(s, owner_id, claim_uuid, call, now), call)[
            0
        ]

    def end_pci_claims(self, owner_id: str, claim_uuid: str | None, verb: str, call: Call) -> None:
        """Release what was only claimed (``unclaim``), or what the guest had (``free``)."""
        self._call(
            lambda s, now: attach.end(s, owner_id, claim_uuid, verb, call, now),
            call,
            answers=False,
        )

    def set_quarantine(self, address: str, reason: str | None, call: Call) -> None:
        """Keep a device back, or give it free again. :raises PciDeviceNotFound:"""
        self._call(
            lambda s, now: quarantine.quarantine(s, address, reason, call, now),
            call,
            answers=False,
        )

    def once(self, call: Call, effect: Callable[[], object]) -> None:
        """Have an effect on what is none of this state, unless the operation had it before. One
        that ends in between has it again when it is repeated.

        :raises ClaimConflict: the operation id is another call's. :raises Unavailable:
        """
        if self._recorded(call.operation_id) is None:
            effect()
        self._call(lambda _, now: unchanged(call, now), call, answers=False)

    # -- the audit's and the operator's part ------------------------------------------------------

    def set_policy(self, policy: Policy, *, anew: bool = False) -> None:
        """Reserves and ratios from now on; what is held stays held (P10).

        :param anew: write the node's row even if they are as before.
        """

        def decide(state: HostState) -> tuple[Change | None, None]:
            now = self._clock.now()
            changed = anew or policy != state.policy
            return (Change(cause="policy", at=now, policy=policy) if changed else None), None

        self._kernel.submit(decide, "policy")

    def observing(self) -> AbstractContextManager[HostState]:
        """An audit's base: while it is in use, what is touched is remembered."""
        return self._kernel.observing()

    def apply(self, steps: Sequence[Step], base: HostState) -> Outcome:
        """Apply the steps that still hold, in chunks.

        :raises StoreUnavailable: some chunks may have been applied.
        """
        outcome = Outcome()
        for chunk in _chunks(steps):
            outcome = outcome.plus(self._kernel.submit(partial(self._apply, chunk, base), "audit"))
        return outcome

    def _apply(
        self, steps: Sequence[Step], base: HostState, state: HostState
    ) -> tuple[Change | None, Outcome]:
        return apply(state, steps, base.revision, self._clock.now())

    def evacuated(self) -> Mapping[str, TakenOver]:
        """Claims whose guests other nodes have taken over, by uuid.

        :raises StoreUnavailable:
        """
        return self._store.evacuated(self.snapshot().node.uuid)

    def forget_moves(self, before: datetime) -> int:
        """Forget the moves that were over before that time; how many there were.

        :raises StoreUnavailable: TrackerBusy:
        """

        def decide(state: HostState) -> tuple[Change | None, int]:
            change = moves.forget(state, before, self._clock.now())
            return change, len(change.migration_removals) if change else 0

        forgotten: int = self._kernel.submit(decide, "purge")
        return forgotten

    def lapsed(self) -> frozenset[str]:
        """Claims whose lease has run out, by the monotonic clock."""
        return self._leases.lapsed()

    def restart_leases(self) -> None:
        """Every lease runs a full term again: store or hypervisor were away."""
        self._leases.restart(self.snapshot().policy.claim_expiry_time)

    def wait_stale(self, timeout: float) -> bool:
        """Whether the tracker is stale, after waiting at most that many seconds for it."""
        return self._kernel.wait_stale(timeout)

    def recover(self) -> bool:
        """When stale: reload, once. The caller repeats it, with back-off, until it is True."""
        return self._kernel.recover()

    def prove(self) -> None:
        """See whether the node is still ours, though nothing is to be written; `fault` tells.

        :raises StoreUnavailable:
        """
        self._kernel.prove()

    def _note(self, before: HostState, changes: Sequence[Change]) -> None:
        if changes:
            self._leases.note(before, changes)
        else:  # reloaded
            self._leases.begin(self.snapshot())

    # -- one call -------------------------------------------------------------------------------

    def _may_create(self) -> None:
        if isinstance(self._kernel.fault, InvariantViolated):
            raise NodeNotReady(f"granting has stopped: {self._kernel.fault.message}")
        if self._held_back is not None:
            # Without what is left of the times before: each would add its frames to it.
            raise self._held_back.with_traceback(None)

    def _call(
        self, rule: Callable[..., Decision], call: Call, answers: bool = True
    ) -> tuple[Claim, ...]:
        """One effect for each operation id.

        The operation's row is written with the change, so a repeat is refused by the database, if
        not by the rule; what was recorded then tells the answer. :param answers: with a claim.
        """

        def decide(state: HostState) -> tuple[Change | None, Decision]:
            decision = rule(state, self._clock.now())
            return (decision.change if isinstance(decision, Granted) else None), decision

        try:
            decision = self._kernel.submit(decide, call.method, call)
            if isinstance(decision, Refused):
                raise refusal(decision)
        except (RequestError, ChangeRejected, CommitUnknown) as error:
            return self._repeat(call, error, answers)
        self._reporter.counted("granted", call.method)
        granted: tuple[Claim, ...] = decision.claims
        return granted

    def _repeat(
        self, call: Call, error: RequestError | StoreError, answers: bool
    ) -> tuple[Claim, ...]:
        """The answer to an operation that was recorded before; without a record, the error."""
        record = self._recorded(call.operation_id)
        if record is None:
            uuid = error.kwargs.get("claim_uuid")
            if isinstance(error, ClaimNotFound) and uuid and self._has_ended(uuid):
                raise ClaimExpired(claim_uuid=uuid)
            raise self._refused(call, error)
        if record.ended:
            raise ClaimExpired(claim_uuid=call.operation_id)
        if record.digest != call.digest:
            raise ClaimConflict(
                f"operation id {call.operation_id} was used for another {record.method}",
                operation_id=call.operation_id,
            )
        if not answers:
            return ()
        claim = self.snapshot().claims.get(record.claim_uuid or "")
        if claim is None:
            raise ClaimExpired(claim_uuid=record.claim_uuid)
        return (claim,)

    def _has_ended(self, claim_uuid: str) -> bool:
        """It was made here, and holds nothing any more. One that is live is not what was meant: it
        is another's, or of another kind."""
        return claim_uuid not in self.snapshot().claims and self._recorded(claim_uuid) is not None

    def _recorded(self, operation_id: str) -> Operation | None:
        return self._store.operation(self.snapshot().node.uuid, operation_id)

    def _refused(self, call: Call, error: RequestError | StoreError) -> RtAgentError:
        if isinstance(error, RequestError):
            for reason in error.kwargs.get("reasons", ()):
                self._reporter.counted("refused", reason["code"])
            return error
        if isinstance(error, CommitUnknown):
            return StoreUnavailable(
                "the connection was lost before the commit and nothing was changed:"
                " repeat with the same operation id"
            )
        if error.kwargs.get("taken"):
            return ClaimConflict(
                f"operation id {call.operation_id} cannot be used here, maybe because another node"
                f" of this database has it: take a new one ({error.message})",
                operation_id=call.operation_id,
            )
        refused = [{"path": "$", "message": f"the database refused it: {error.message}"}]
        return InvalidRequest(method=call.method, errors=refused)


def _chunks(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    start = 0
    while start < len(steps):
        end = start + CHUNK
        while end < len(steps) and steps[end].joined:
            end += 1
        yield steps[start:end]
        start = end


def _test(claim_uuid: str) -> Call:
    return Call(method="test_claim", operation_id=claim_uuid, digest="")


def refusal(refused: Refused) -> ComputeResourcesUnavailable:
    """The error that carries a refusal to its caller."""
    return ComputeResourcesUnavailable(reasons=[reason.as_dict() for reason in refused.reasons])
