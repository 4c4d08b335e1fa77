"""Operations: runs calls so that each operation id has one effect.

The record of an operation is written in the same transaction as its change, so a repeat is refused
by the rule or by the database. The record then gives the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rtagent.bus import CallRefused
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
from rtagent.lifecycle.consequences import unchanged
from rtagent.lifecycle.draining import check_not_draining
from rtagent.model.change import Call, Change, Operation
from rtagent.model.claim import Claim
from rtagent.model.decision import Decision, Granted, Refused
from rtagent.model.node_state import NodeState
from rtagent.ports import Clock, Reporter, Store
from rtagent.state.queue import Decide
from rtagent.state.writer import StateWriter

#: Decides a call on the current state, at the current time.
Rule = Callable[[NodeState, datetime], Decision]


class Operations:
    """Thread-safe. Every method may raise `Unavailable`, `ClaimConflict` if the operation id was
    used for another call, and what the rule raises.

    :ivar unlisted: why the host's devices are not known, or None. No new claim gets any then.
    """

    def __init__(self, writer: StateWriter, store: Store, clock: Clock, reporter: Reporter) -> None:
        self._writer, self._store = writer, store
        self._clock, self._reporter = clock, reporter.named(__name__)
        self._suspended: Unavailable | None = None
        self._unobserved: dict[str, Unavailable | None] = {}
        self.unlisted: Unavailable | None = None

    @property
    def suspended(self) -> Unavailable | None:
        """Why no claim is created at present, or None."""
        return self._suspended or self.unobserved

    @property
    def unobserved(self) -> Unavailable | None:
        """Why the last audit of one part has not observed it, or None."""
        # `list` is one step for other threads, which note the result of an audit.
        return next(filter(None, list(self._unobserved.values())), None)

    def note_unobserved(self, part: str, error: Unavailable | None) -> None:
        """Note why an audit of a part has not observed it; None: it has."""
        self._unobserved[part] = error

    def suspend_creation(self, error: Unavailable | None) -> None:
        """Answer creating calls with this error from now on; None: create claims again."""
        self._suspended = error

    def check_creation(self) -> None:
        """:raises Unavailable: no claim is created at present."""
        self._writer.restoration.check()
        if isinstance(self._writer.status.fault, InvariantViolated):
            raise NodeNotReady(f"granting has stopped: {self._writer.status.fault.message}")
        if (error := self.suspended) is not None:
            # Without the traceback of earlier calls: each would add its frames to it.
            raise error.with_traceback(None)

    def create(self, rule: Rule, call: Call) -> Claim:
        """Create a claim whose uuid is the operation id.

        :raises ComputeResourcesUnavailable: refused. :raises NodeDraining: of a new claim.
        :raises ClaimExpired: the claim has ended.
        """
        self.check_creation()
        return self._run(self.admitted(rule), call)[0]

    def create_all(self, created: Sequence[tuple[Rule, Call]]) -> list[Claim | RtAgentError]:
        """Create claims together, each as `create` does. Return each claim, or why there is none.

        :raises Unavailable: no claim is created at present.
        """
        self.check_creation()
        outcomes = self._writer.submit_all(
            [(self._decide(self.admitted(rule)), call.method, call) for rule, call in created]
        )
        return [
            self._created(call, each) for (_, call), each in zip(created, outcomes, strict=True)
        ]

    def _created(self, call: Call, outcome: Any) -> Claim | RtAgentError:
        """Return the claim, or why there is none. :param outcome: of the state writer."""

        def decided() -> Any:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        try:
            return self._answer(call, decided)[0]
        except RtAgentError as error:
            return error

    def admitted(self, rule: Rule) -> Rule:
        """Return the rule for new claims, which are refused while none is created, and with devices
        while these are not known.
        """

        def admitted(state: NodeState, now: datetime) -> Decision:
            self._writer.restoration.check()  # a reload may have noticed it since the call came
            check_not_draining(state)
            decision = rule(state, now)
            claims = decision.claims if isinstance(decision, Granted) else ()
            # An audit may note another result at any moment.
            if (error := self.unlisted) is not None and any(map(_has_devices, claims)):
                raise error.with_traceback(None)
            return decision

        return admitted

    def change(self, rule: Rule, call: Call) -> Claim:
        """Change a claim; a repeat returns the claim as it is now.

        :raises ClaimExpired: the claim has ended.
        """
        return self._run(rule, call)[0]

    def execute(self, rule: Rule, call: Call) -> None:
        """Make a change whose caller needs no claim in the answer."""
        self._run(rule, call, answers=False)

    def once(self, call: Call, effect: Callable[[], object]) -> None:
        """Have an effect outside the state, unless the operation had it before.

        If the process ends between the effect and the record, a repeat has the effect again.
        """
        if self._record(call.operation_id) is None:
            effect()
        self.execute(lambda _, now: unchanged(call, now), call)

    def accept_restore(self, revision: int, call: Call) -> None:
        """Accept the restored store that continued with this revision. Leases start again.

        :raises RestoreNotFound: another one awaits acceptance, or none.
        """

        def accept() -> None:
            writer = self._writer
            writer.leases.restart(writer.published.current.policy.claim_expiry_time)
            writer.restoration.accept(revision)

        self.once(call, accept)

    def _run(self, rule: Rule, call: Call, *, answers: bool = True) -> tuple[Claim, ...]:
        """Submit a rule; the claims after it. :param answers: whether a repeat needs a claim."""
        decide = self._decide(rule)
        return self._answer(
            call, lambda: self._writer.submit(decide, call.method, call), answers=answers
        )

    def _decide(self, rule: Rule) -> Decide:
        def decide(state: NodeState) -> tuple[Change | None, Decision]:
            decision = rule(state, self._clock.now())
            return (decision.change if isinstance(decision, Granted) else None), decision

        return decide

    def _answer(
        self, call: Call, decided: Callable[[], Decision], *, answers: bool = True
    ) -> tuple[Claim, ...]:
        """Return the claims after a decision. :param decided: returns it, or raises its error."""
        try:
            decision = decided()
            if isinstance(decision, Refused):
                reasons = [reason.as_dict() for reason in decision.reasons]
                raise ComputeResourcesUnavailable(reasons=reasons)
        except (RequestError, ChangeRejected, CommitUnknown) as error:
            return self._repeat(call, error, answers)
        self._reporter.counted("granted", call.method)
        return decision.claims

    def _repeat(
        self, call: Call, error: RequestError | StoreError, answers: bool
    ) -> tuple[Claim, ...]:
        """The answer to a repeat, from the operation's record. Without one, raise the error."""
        record = self._record(call.operation_id)
        if record is None:
            uuid = error.kwargs.get("claim_uuid")
            if isinstance(error, ClaimNotFound) and uuid and self._has_ended(uuid):
                raise ClaimExpired(claim_uuid=uuid)
            raise self._failure(call, error)
        if record.ended:
            raise ClaimExpired(claim_uuid=call.operation_id)
        if record.digest != call.digest:
            raise ClaimConflict(
                f"operation id {call.operation_id} was used for another {record.method}",
                operation_id=call.operation_id,
            )
        if not answers:
            return ()
        claim = self._writer.published.current.claims.get(record.claim_uuid or "")
        if claim is None:
            raise ClaimExpired(claim_uuid=record.claim_uuid)
        return (claim,)

    def _has_ended(self, claim_uuid: str) -> bool:
        """Whether the claim was created here and has ended. A claim that is live was not found for
        another reason: it is another owner's, or of another kind."""
        live = claim_uuid in self._writer.published.current.claims
        return not live and self._record(claim_uuid) is not None

    def _record(self, operation_id: str) -> Operation | None:
        return self._store.operation(self._writer.published.current.node.uuid, operation_id)

    def _failure(self, call: Call, error: RequestError | StoreError) -> RtAgentError:
        """The caller's error for an operation that had no effect."""
        if isinstance(error, RequestError):
            if reasons := error.kwargs.get("reasons", ()):
                self._report_refusal(call, reasons)
            return error
        if isinstance(error, CommitUnknown):
            return StoreUnavailable(
                "the connection was lost before the commit and nothing was changed:"
                " repeat with the same operation id"
            )
        if error.kwargs.get("taken"):
            return ClaimConflict(
                f"operation id {call.operation_id} cannot be used here, maybe because another node"
                f" of this database has it: use a new one ({error.message})",
                operation_id=call.operation_id,
            )
        rejected = [{"path": "$", "message": f"the database rejected it: {error.message}"}]
        return InvalidRequest(method=call.method, errors=rejected)

    def _report_refusal(self, call: Call, reasons: Sequence[Mapping[str, Any]]) -> None:
        for reason in reasons:
            self._reporter.counted("refused", reason["code"])
        self._writer.bus.publish(CallRefused(call=call, reasons=reasons))


def _has_devices(claim: Claim) -> bool:
    """Return whether a claim has PCI devices, or resources that are made from some."""
    return bool(claim.pci) or any(unit.parent_addr is not None for unit in claim.resources)
