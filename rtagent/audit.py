"""One audit: take a snapshot, observe, plan, apply what is still valid, and summarise it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from oslo_concurrency.lockutils import ReaderWriterLock

from rtagent.allocation.unknown_usage import running_with_unknown
from rtagent.errors import HypervisorUnavailable, StoreUnavailable, TrackerBusy
from rtagent.model.assignment import PmemNamespace
from rtagent.model.base import Value
from rtagent.model.device import NO_ROOT_PORTS, Device
from rtagent.model.domain_usage import HostResource
from rtagent.model.guest import GuestLayout
from rtagent.model.node_state import NodeState
from rtagent.model.observation import NEVER_OBSERVED, Observation, ObservedDomains, Problem, Reboot
from rtagent.ports import Clock, Hypervisor, NullReporter, Reporter
from rtagent.reconcile import drift
from rtagent.reconcile.plan import Agreement, plan, unlisted_mdevs
from rtagent.reconcile.steps import Outcome, device_problems
from rtagent.state.compute_node import resource_views
from rtagent.tracker import ResourceTracker

#: The part of health that shows audits.
PART = "audit"
#: The part of health that shows awaited guests.
GUESTS = "guests"


#: The cause of an audit that only the interval has caused.
PERIODIC = "periodic"
_INCOMPLETE = "the connection did not hold"
_UNLISTED = "the last audit could not list the host's devices: no claim gets any until one can"


class AuditSummary(Value, frozen=True, kw_only=True):
    """What an audit found and did.

    :ivar cause: ``periodic``, ``request``, ``start``, or the event that triggered it.
    :ivar complete: the connection held; what was not seen was not there.
    :ivar applied: steps. :ivar skipped: steps whose key was touched since the snapshot.
    :ivar absent: resources that claims hold and that the host lacks.
    :ivar refused: why nothing was written, or "".
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
        """The observation was complete, and what was to be written was written."""
        return self.complete and not self.refused

    def __str__(self) -> str:
        found = (
            f"{_count(self.claims, 'claim')}, {_count(self.orphans, 'orphan')},"
            f" {_count(self.drifts, 'drift')}, {self.absent} absent,"
            f" {_count(self.suspects, 'suspect')}"
        )
        did = f"applied {self.applied}, skipped {self.skipped}"
        if self.skipped:
            did += " (touched meanwhile; left to the next audit)"
        if self.refused:
            did = f"applied nothing: {self.refused}"
        if self.problems:
            listed = "; ".join(f"{p.item}: {p.message}" for p in self.problems[:3])
            more = f" (+{len(self.problems) - 3})" if len(self.problems) > 3 else ""
            found += f"; {_count(len(self.problems), 'problem')}: {listed}{more}"
        whole = "" if self.complete else f" (incomplete: {_INCOMPLETE})"
        return f"audit ({self.cause}){whole}: {did}; {found}; {self.seconds * 1000:.0f} ms"

    def as_dict(self) -> dict[str, Any]:
        """JSON primitives, the sentence included."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {**fields, "sentence": str(self)}


class AuditEnded(Value, frozen=True, kw_only=True):
    """An event: an audit has ended. :ivar part: of the host, see `Auditor`."""

    part: str
    summary: AuditSummary


def unobserved(error: Exception) -> HypervisorUnavailable:
    """Return the error of claims after an audit that has failed with this error."""
    if isinstance(error, HypervisorUnavailable):
        return error
    return HypervisorUnavailable(f"the last audit failed: {error!r}")


class Auditor:
    """Runs audits of a tracker's host, one at a time, in the order in which they were requested.

    :ivar last: the summary of the last audit. :ivar devices: the host's, as last listed.
    :ivar root_ports: those of the devices that could be listed last.
    :ivar namespaces: its persistent memory, as last observed.
    :ivar domains: those of the last complete observation.
    :ivar awaited: claims whose guests are not back after a reboot of the host.
    """

    def __init__(
        self,
        tracker: ResourceTracker,
        hypervisor: Hypervisor,
        clock: Clock,
        reporter: Reporter | None = None,
        *,
        part: str = PART,
    ) -> None:
        """:param part: of the health that it reports, and of the host: claims are created only
        while the last audit of each part has observed it.
        """
        self._part = part
        self.tracker, self._hypervisor, self._clock = tracker, hypervisor, clock
        self._reporter: Reporter = (reporter or NullReporter()).named(__name__)
        # Its write lock is first come, first served. With a plain lock, callers that audit without
        # a pause would keep out the service's own audits, which open the admission.
        self._turns = ReaderWriterLock()
        self._views: Mapping[str, str] = {}
        self._agreement = Agreement()
        self.last: AuditSummary | None = None
        self.devices: Sequence[Device] | None = None
        self.root_ports = NO_ROOT_PORTS
        self.namespaces: Sequence[PmemNamespace] | None = None
        self.domains: ObservedDomains = NEVER_OBSERVED
        self.awaited: frozenset[str] = frozenset()
        self._reboot: Reboot | None = None

    def await_guests(self, reboot: Reboot | None) -> None:
        """Await the guests that were here before a reboot. Call it before the first audit."""
        self._reboot = reboot

    def guest(self, uuid: str) -> GuestLayout | None:
        """Read one domain now. Return None if there is no such domain.

        :raises HypervisorUnavailable:
        """
        return self._hypervisor.guest(uuid)

    def run(self, cause: str) -> AuditSummary:
        """Audit now. The snapshot comes first, so that claims which are made while the host is
        observed count as touched and are left alone.

        After any error but `TrackerBusy`, and after an observation that is not complete, no claim
        is created until another audit has observed the host and has written what it found. While
        devices could not be listed, no claim gets any.

        :raises HypervisorUnavailable: nothing was observed and nothing is changed.
        """
        with self._turns.write_lock(), self._observing():
            began = self._clock.monotonic()
            with self.tracker.observing() as base:
                lapsed = self.tracker.lapsed()
                self._end_wait()
                seen = self._hypervisor.observe()
                outcome, refused = self._apply(base, seen, lapsed)
            if seen.complete and seen.has_domains:
                self.domains = seen.domains
                self._note_awaited(seen)
            seconds = self._clock.monotonic() - began
            state, self.namespaces = self.tracker.snapshot(), seen.namespaces
            problems = (*_unknown(state, seen), *seen.problems, *device_problems(base, seen))
            if seen.has_devices and seen.devices is None:
                self.tracker.creation.unlisted = HypervisorUnavailable(_UNLISTED)
            elif seen.has_devices and not refused:
                self.tracker.creation.unlisted = None
            if seen.devices is not None:
                self.devices, self.root_ports = seen.devices, seen.root_ports
            self.last = _summary(state, cause, seen, problems, outcome, refused, seconds)
            summary = self.last
        self._report(summary)
        if seen.topology is not None:
            self._log_views(state)
        return summary

    @contextmanager
    def _observing(self) -> Iterator[None]:
        """Let claims be created only if the block has observed the host, and has written that."""
        try:
            yield
        except TrackerBusy:  # the result of the audit before still holds
            raise
        except Exception as error:
            self.tracker.creation.note_unobserved(self._part, unobserved(error))
            raise
        assert self.last is not None
        if not self.last.complete:
            self.tracker.creation.note_unobserved(self._part, HypervisorUnavailable(_INCOMPLETE))
        elif self.last.good:  # if nothing was written, the result of the audit before still holds
            self.tracker.creation.note_unobserved(self._part, None)

    def _end_wait(self) -> None:
        """Let guests that are not back count as missing, when their time is over."""
        if self._reboot is not None and self._clock.monotonic() >= self._reboot.until:
            self._reboot, self.awaited = None, frozenset()
            self._reporter.health(GUESTS, "pass")

    def _note_awaited(self, seen: Observation) -> None:
        """Note which guests are not back after the reboot."""
        if self._reboot is None:
            return
        claims = self.tracker.snapshot().claims.values()
        self.awaited = self._reboot.awaited(claims, seen.domains)
        why = f"guests that are not back after the reboot of the host: {len(self.awaited)}"
        self._reporter.health(GUESTS, *(("warn", why) if self.awaited else ("pass", "")))

    def _apply(
        self, base: NodeState, seen: Observation, lapsed: frozenset[str]
    ) -> tuple[Outcome, str]:
        if self.tracker.stale:
            return Outcome(), "the store is down"
        try:
            evacuated = self.tracker.evacuated()
            steps = plan(base, seen, lapsed, evacuated, self._reboot, self._agreement)
            return self.tracker.apply(steps, base), ""
        except StoreUnavailable as error:
            return Outcome(), error.message

    def _report(self, summary: AuditSummary) -> None:
        self._reporter.timed("audit", summary.cause, summary.seconds)
        self._reporter.counted("audit_skipped", summary.cause, summary.skipped)
        status = "pass" if summary.good and not summary.problems else "warn"
        self._reporter.health(self._part, status, "" if status == "pass" else str(summary))
        quiet = status == "pass" and not summary.applied
        self._reporter.log("debug" if quiet else "info", str(summary))
        self.tracker.bus.publish(AuditEnded(part=self._part, summary=summary))

    def _log_views(self, state: NodeState) -> None:
        """Log the views of the node's resources that have changed since the last audit."""
        before, self._views = self._views, resource_views(state)
        for title, view in self._views.items():
            if before.get(title) != view:
                self._reporter.log("info", f"{title}: {view}")


def _unknown(state: NodeState, seen: Observation) -> Iterator[Problem]:
    """Yield the problem that some claims are refused because it is unknown what domains use, and
    what of it no document shows: mediated devices that the host does not list.
    """
    kinds = running_with_unknown(state)
    if kinds:
        message = f"no claim gets any of: {', '.join(kinds)}"
        yield Problem(item="unknown usage of running domains", message=message)
    for usage in kinds.get(HostResource.DEVICES, ()):
        for uuid in sorted(unlisted_mdevs(state, usage.occupancy, seen)):
            message = f"the host does not list the mediated device {uuid}"
            yield Problem(item=f"domain {usage.domain_uuid}", message=message)


def _summary(
    state: NodeState,
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
        orphans=len(drift.orphans(state)),
        drifts=len(drift.drifts(state)),
        absent=len(drift.absent(state)),
        suspects=len(drift.suspects(state)),
        seconds=seconds,
        problems=problems,
        refused=refused,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
