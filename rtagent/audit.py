"""One audit: take a snapshot, observe, plan, apply what still holds, and say so in one sentence."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rtagent import views
from rtagent.errors import StoreUnavailable
from rtagent.model.base import Value
from rtagent.model.device import Device
from rtagent.model.host import HostState
from rtagent.model.observation import Domain, Observation, Problem
from rtagent.ports import Clock, Hypervisor, Reporter, Silence
from rtagent.reconcile.devices import device_problems
from rtagent.reconcile.plan import plan
from rtagent.reconcile.step import Outcome
from rtagent.tracker import ResourceTracker


class AuditSummary(Value, frozen=True, kw_only=True):
    """What an audit found and did.

    :ivar cause: ``periodic``, ``request``, ``start``, or the event that called for it.
    :ivar complete: the connection held; what was not seen was not there.
    :ivar applied: steps. :ivar skipped: steps that lost to a claim made meanwhile.
    :ivar absent: units that claims hold and that are not there.
    :ivar refused: why the store took nothing, or "".
    """

    cause: str
    complete: bool
    applied: int
    skipped: int
    claims: int
    orphans: int
    drifts: int
    absent: int
    suspects: int
    seconds: float
    problems: tuple[Problem, ...] = ()
    refused: str = ""

    @property
    def good(self) -> bool:
        """The host was seen whole and the store took what there was to write."""
        return self.complete and not self.refused

    def __str__(self) -> str:
        found = (
            f"{_count(self.claims, 'claim')}, {_count(self.orphans, 'orphan')},"
            f" {_count(self.drifts, 'drift')}, {self.absent} absent,"
            f" {_count(self.suspects, 'suspect')}"
        )
        did = f"applied {self.applied}, skipped {self.skipped}"
        if self.skipped:
            did += " (touched meanwhile: the next audit's)"
        if self.refused:
            did = f"applied nothing: {self.refused}"
        if self.problems:
            listed = "; ".join(f"{p.item}: {p.message}" for p in self.problems[:3])
            more = f" (+{len(self.problems) - 3})" if len(self.problems) > 3 else ""
            found += f"; {_count(len(self.problems), 'problem')}: {listed}{more}"
        whole = "" if self.complete else " (incomplete: the connection did not hold)"
        return f"audit ({self.cause}){whole}: {did}; {found}; {self.seconds * 1000:.0f} ms"

    def as_dict(self) -> dict[str, Any]:
        """JSON primitives, the sentence included."""
        told: dict[str, Any] = msgspec.to_builtins(self)
        return {**told, "sentence": str(self)}


class Auditor:
    """Runs audits of a tracker's host, one at a time.

    :ivar last: what the last one found and did. :ivar devices: the host's, as it was shown them.
    :ivar domains: those that were here when the host was last seen whole; None: it never was.
    """

    def __init__(
        self,
        tracker: ResourceTracker,
        hypervisor: Hypervisor,
        clock: Clock,
        reporter: Reporter | None = None,
    ) -> None:
        self.tracker, self._hypervisor, self._clock = tracker, hypervisor, clock
        self._reporter: Reporter = reporter or Silence()
        self._one_at_a_time = threading.Lock()
        self.last: AuditSummary | None = None
        self.devices: Sequence[Device] | None = None
        self.domains: Mapping[str, Domain] | None = None

    def run(self, cause: str) -> AuditSummary:
        """Audit now. The snapshot comes first: claims made while the host is observed are seen as
        touched and left alone.

        :raises HypervisorUnavailable: nothing was observed and nothing is changed.
        """
        with self._one_at_a_time:
            began = self._clock.monotonic()
            with self.tracker.observing() as base:
                lapsed = self.tracker.lapsed()
                seen = self._hypervisor.observe()
                outcome, refused = self._apply(base, seen, lapsed)
            if seen.complete:
                self.domains = seen.domains
            seconds = self._clock.monotonic() - began
            problems = (*seen.problems, *device_problems(base, seen))
            state, self.devices = self.tracker.snapshot(), seen.devices
            self.last = _summary(state, cause, seen, problems, outcome, refused, seconds)
        self._tell(self.last)
        return self.last

    def _apply(
        self, base: HostState, seen: Observation, lapsed: frozenset[str]
    ) -> tuple[Outcome, str]:
        if self.tracker.stale:
            return Outcome(), "the store is down"
        try:
            steps = plan(base, seen, lapsed, self.tracker.evacuated())
            return self.tracker.apply(steps, base), ""
        except StoreUnavailable as error:
            return Outcome(), error.message

    def _tell(self, summary: AuditSummary) -> None:
        self._reporter.timed("audit", summary.cause, summary.seconds)
        self._reporter.counted("audit_skipped", summary.cause, summary.skipped)
        status = "pass" if summary.good and not summary.problems else "warn"
        self._reporter.health("audit", status, "" if status == "pass" else str(summary))
        quiet = status == "pass" and not summary.applied
        self._reporter.said("debug" if quiet else "info", str(summary))


def _summary(
    state: HostState,
    cause: str,
    seen: Observation,
    problems: tuple[Problem, ...],
    outcome: Outcome,
    refused: str,
    seconds: float,
) -> AuditSummary:
    return AuditSummary(
        cause=cause,
        complete=seen.complete,
        applied=len(outcome.applied),
        skipped=len(outcome.skipped),
        claims=len(state.claims),
        orphans=len(views.orphans(state)),
        drifts=len(views.drifts(state)),
        absent=len(views.absent(state)),
        suspects=len(views.suspects(state)),
        seconds=seconds,
        problems=problems,
        refused=refused,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
