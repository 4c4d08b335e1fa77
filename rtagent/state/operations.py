"""Operations: runs calls so that each operation id has one effect. Creation: whether claims are
created at present, and the error that creating calls get if not.

The record of an operation is written in the same transaction as its change, so a repeat is refused
by the rule or by the database. The record then gives the answer.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar

from rtagent import errors
from rtagent.bus import CallRefused
from rtagent.claims import check_not_draining
from rtagent.errors import InvariantViolated, NodeNotReady, Unavailable
from rtagent.model.change import Call, Change, Operation
from rtagent.model.claim import Claim
from rtagent.model.decision import Decision, Granted, Refused, Rule
from rtagent.model.node_state import NodeState
from rtagent.ports import Clock, Reporter, Store
from rtagent.state.writer import StateWriter

P = ParamSpec("P")
#: A rule with its call and its other arguments.
Decide = Callable[[NodeState, datetime], Decision]


def bound(rule: Rule[P], call: Call, *args: P.args, **kwargs: P.kwargs) -> Decide:
    """Return a rule with its call and its other arguments."""
    return lambda state, now: rule(state, call, now, *args, **kwargs)


class Operations:
    """Thread-safe. Every method may raise `Unavailable`, `ClaimConflict` if the operation id was
    used for another call, and what the rule raises.
    """

    def __init__(self, writer: StateWriter, store: Store, clock: Clock, reporter: Reporter) -> None:
        self._writer, self._store = writer, store
        self._clock, self._reporter = clock, reporter.named(__name__)

    def run(self, decide: Decide, call: Call, *, answers: bool = True) -> tuple[Claim, ...]:
        """Submit a decision. Return the claims after it.

        :param answers: a repeat returns the claim as it is now; otherwise nothing.
        :raises ComputeResourcesUnavailable: refused.
        :raises ClaimExpired: a repeat, and its claim has ended.
        """
        (outcome,) = self._submit([(decide, call)])
        return self._answer(call, outcome, answers)

    def run_all(
        self, decisions: Sequence[tuple[Decide, Call]]
    ) -> list[Claim | errors.RtAgentError]:
        """Submit decisions that make a claim each, together. Return each claim, or the error that
        `run` would raise.
        """
        answers: list[Claim | errors.RtAgentError] = []
        for (_, call), outcome in zip(decisions, self._submit(decisions), strict=True):
            try:
                answers.append(self._answer(call, outcome)[0])
            except errors.RtAgentError as error:
                answers.append(error)
        return answers

    def record(self, operation_id: str) -> Operation | None:
        """Return the record of an operation; None: it had no effect.

        :raises StoreUnavailable:
        """
        return self._store.operation(self._writer.published.current.node.uuid, operation_id)

    def _submit(self, decisions: Sequence[tuple[Decide, Call]]) -> list[Decision | Exception]:
        return self._writer.submit_all(
            [(partial(self._decided, decide), call.method, call) for decide, call in decisions]
        )

    def _decided(self, decide: Decide, state: NodeState) -> tuple[Change | None, Decision]:
        decision = decide(state, self._clock.now())
        return (decision.change if isinstance(decision, Granted) else None), decision

    def _answer(
        self, call: Call, outcome: Decision | Exception, answers: bool = True
    ) -> tuple[Claim, ...]:
        """Return the claims after a decision, or raise why there are none."""
        if isinstance(outcome, Refused):
            reasons = [reason.as_dict() for reason in outcome.reasons]
            outcome = errors.ComputeResourcesUnavailable(reasons=reasons)
        if isinstance(outcome, errors.RequestError | errors.ChangeRejected | errors.CommitUnknown):
            return self._repeat(call, outcome, answers)
        if isinstance(outcome, Exception):
            raise outcome
        self._reporter.counted("granted", call.method)
        return outcome.claims

    def _repeat(
        self, call: Call, error: errors.RequestError | errors.StoreError, answers: bool
    ) -> tuple[Claim, ...]:
        """The answer to a repeat, from the operation's record. Without one, raise the error."""
        record = self.record(call.operation_id)
        if record is None:
            uuid = error.kwargs.get("claim_uuid")
            if isinstance(error, errors.ClaimNotFound) and uuid and self._has_ended(uuid):
                raise errors.ClaimExpired(claim_uuid=uuid)
            raise self._failure(call, error)
        if record.ended:
            raise errors.ClaimExpired(claim_uuid=call.operation_id)
        if record.digest != call.digest:
            raise errors.ClaimConflict(
                f"operation id {call.operation_id} was used for another {record.method}",
                operation_id=call.operation_id,
            )
        if not answers:
            return ()
        claim = self._writer.published.current.claims.get(record.claim_uuid or "")
        if claim is None:
            raise errors.ClaimExpired(claim_uuid=record.claim_uuid)
        return (claim,)

    def _has_ended(self, claim_uuid: str) -> bool:
        """Whether the claim was created here and has ended. A claim that is live was not found for
        another reason: it is another owner's, or of another kind."""
        live = claim_uuid in self._writer.published.current.claims
        return not live and self.record(claim_uuid) is not None

    def _failure(
        self, call: Call, error: errors.RequestError | errors.StoreError
    ) -> errors.RtAgentError:
        """The caller's error for an operation that had no effect."""
        if isinstance(error, errors.RequestError):
            if reasons := error.kwargs.get("reasons", ()):
                self._report_refusal(call, reasons)
            return error
        if isinstance(error, errors.CommitUnknown):
            return errors.StoreUnavailable(
                "the connection was lost before the commit and nothing was changed:"
                " repeat with the same operation id"
            )
        if error.kwargs.get("taken"):
            return errors.ClaimConflict(
                f"operation id {call.operation_id} cannot be used here, maybe because another node"
                f" of this database has it: use a new one ({error.message})",
                operation_id=call.operation_id,
            )
        rejected = [{"path": "$", "message": f"the database rejected it: {error.message}"}]
        return errors.InvalidRequest(method=call.method, errors=rejected)

    def _report_refusal(self, call: Call, reasons: Sequence[Mapping[str, Any]]) -> None:
        for reason in reasons:
            self._reporter.counted("refused", reason["code"])
        self._writer.bus.publish(CallRefused(call=call, reasons=reasons))


D = TypeVar("D", bound=Decision)


class Creation:
    """Thread-safe.

    :ivar unlisted: why the last audit has not listed the host's devices, or None. Until one has, no
        claim gets any.
    """

    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer
        self._suspended: Unavailable | None = None
        self._unobserved: dict[str, Unavailable | None] = {}
        self.unlisted: Unavailable | None = None

    @property
    def suspended(self) -> Unavailable | None:
        """Why no claim is created at present, or None."""
        return self._suspended or self.unobserved

    @property
    def unobserved(self) -> Unavailable | None:
        """Why the last audit of one part has not observed it, or None. Until it has, no claim is
        made."""
        # `list` is one step for other threads, which note the result of an audit.
        return next(filter(None, list(self._unobserved.values())), None)

    def note_unobserved(self, part: str, error: Unavailable | None) -> None:
        """Note why an audit of a part of the host has not observed it; None: it has."""
        self._unobserved[part] = error

    def suspend(self, error: Unavailable | None) -> None:
        """Answer creating calls with this error from now on; None: create claims again."""
        self._suspended = error

    def check(self) -> None:
        """:raises Unavailable: no claim is created at present."""
        self._writer.restoration.check()
        if isinstance(self._writer.status.fault, InvariantViolated):
            raise NodeNotReady(f"granting has stopped: {self._writer.status.fault.message}")
        if (error := self.suspended) is not None:
            # Without the traceback of earlier calls: each would add its frames to it.
            raise error.with_traceback(None)

    def admitted(self, rule: Callable[..., D]) -> Callable[..., D]:
        """Return the rule for new claims, which are refused while none is created, and with devices
        while these are not known.
        """

        def admitted(state: NodeState, *arguments: Any, **more: Any) -> D:
            self._writer.restoration.check()  # a reload may have noticed it since the call came
            check_not_draining(state)
            decision = rule(state, *arguments, **more)
            claims = decision.claims if isinstance(decision, Granted) else ()
            # An audit may note another result at any moment.
            if (error := self.unlisted) is not None and any(map(_has_devices, claims)):
                raise error.with_traceback(None)
            return decision

        return admitted


def _has_devices(claim: Claim) -> bool:
    """Return whether a claim has PCI devices, or resources that are made from some."""
    return bool(claim.pci) or any(unit.parent_addr is not None for unit in claim.resources)
