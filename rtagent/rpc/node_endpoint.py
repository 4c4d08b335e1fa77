"""The methods of the node and its service: audit, Placement, builds, drain, reports, ping."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Annotated, Generic, TypeVar

from msgspec import Meta
from msgspec.structs import asdict

from rtagent.audit import Auditor, AuditSummary
from rtagent.claims import build_failed, build_succeeded
from rtagent.errors import HypervisorUnavailable, InvalidRequest, NodeNotReady
from rtagent.lifecycle.draining import drain, undrain
from rtagent.model.base import TIME, Count, Name, Text
from rtagent.model.change import Call
from rtagent.model.request import Arguments
from rtagent.model.store_restore import StoreRestore
from rtagent.ports import Clock, Service, ServiceRegistry
from rtagent.reconcile import drift
from rtagent.rpc import replies
from rtagent.rpc.clock_skew import clock_text
from rtagent.rpc.method import Change, rpc_method
from rtagent.rpc.roles import ANY, CONDUCTOR, OPERATOR, READER, SCHEDULER
from rtagent.tracker import ResourceTracker

T = TypeVar("T")


class SharedCall(Generic[T]):
    """Runs a function for its callers, one run at a time. Thread-safe.

    A caller gets the result of a run that begins after its call, because an earlier run may have
    observed the host before a change by the caller. All callers that call during a run share the
    next one, so any number of concurrent calls cause at most two runs.
    """

    def __init__(self, name: str, function: Callable[[], T]) -> None:
        """:param name: of the thread that runs the function."""
        self._name, self._function = name, function
        self._lock = threading.Lock()
        self._next: Future[T] | None = None
        self._running = False

    def result(self, timeout: float) -> T:
        """Return the result of the next run, or raise its error.

        :param timeout: seconds. The run goes on after it.
        :raises TimeoutError: the run has not ended in time.
        """
        with self._lock:
            if self._next is None:
                self._next = Future()
            mine = self._next
            if not self._running:
                # Not in the caller's thread: the caller waits for a bounded time only.
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._running = True  # only now: a thread that cannot be started runs nothing
        return mine.result(timeout)

    def _run(self) -> None:
        """Run the function until no caller waits for another run."""
        while True:
            with self._lock:
                run, self._next = self._next, None
                self._running = run is not None
            if run is None:
                return
            try:
                run.set_result(self._function())
            except BaseException as error:  # raised to the callers
                run.set_exception(error)


#: Seconds for which a caller waits for the audit that it has requested. Less than the agent's stop
#: waits for calls in flight.
AUDIT_TIMEOUT = 25.0


class SetService(Change, frozen=True, kw_only=True):
    """Whether the scheduler may select the host."""

    disabled: bool
    disabled_reason: Name | None = None


class UpdateForcedDown(Arguments, frozen=True, kw_only=True):
    """:ivar forced_down: what the schedulers' database has. False: no longer."""

    forced_down: bool


class AcceptRestore(Change, frozen=True, kw_only=True):
    """:ivar revision: that of the restored database in the reply of `get_restore`."""

    revision: Count


class NodeEndpoint:
    """Serves the methods of the node and its service."""

    def __init__(
        self,
        tracker: ResourceTracker,
        auditor: Auditor,
        registry: ServiceRegistry,
        clock: Clock,
        version: str,
        sync_placement: Callable[[], int],
        agent_uuid: str,
        audit_timeout: float = AUDIT_TIMEOUT,
    ) -> None:
        """:param version: of the software.
        :param sync_placement: updates Placement and returns the revision that Placement then has;
            raises `PlacementError`. Callers that wait at the same time share a synchronisation.
        :param agent_uuid: identifies this start of the agent.
        :param audit_timeout: seconds for which a caller waits for an audit.
        """
        self._tracker, self._registry = tracker, registry
        self._audits = SharedCall("requested-audit", lambda: auditor.run("request"))
        self._clock, self._version, self._sync_placement = clock, version, sync_placement
        self._started, self._audit_timeout = clock.monotonic(), audit_timeout
        self._agent_uuid = agent_uuid

    @rpc_method(OPERATOR, errors=("HypervisorUnavailable", "TrackerBusy"), slow=True)
    def update_available_resource(self, arguments: Arguments) -> replies.Audit:
        """Run an audit now and return its summary. Callers that wait at the same time share the
        next audit."""
        summary = self._audit()
        return replies.Audit(**asdict(summary), sentence=str(summary))

    @rpc_method(
        OPERATOR,
        errors=("PlacementError", "PlacementConflict", "PlacementUnavailable", "NodeNotReady"),
        slow=True,
    )
    def sync_placement(self, arguments: Arguments) -> replies.Mirrored:
        """Read Placement's records of this host again and correct every difference. The reply is
        sent when that is done. Callers that wait at the same time share the next
        synchronisation."""
        return replies.Mirrored(revision=self._sync_placement())

    @rpc_method(CONDUCTOR)
    def build_failed(self, arguments: Change, call: Call) -> None:
        """Count a failed build: increment ``stats.failed_builds``."""
        self._tracker.execute(build_failed, call)

    @rpc_method(CONDUCTOR)
    def build_succeeded(self, arguments: Change, call: Call) -> None:
        """Report a successful build: reset ``stats.failed_builds`` to zero."""
        self._tracker.execute(build_succeeded, call)

    @rpc_method(OPERATOR, by_position=("disabled_reason",), slow=True)
    def set_service(self, arguments: SetService, call: Call) -> Service:
        """Disable the host for scheduling, with a reason, or enable it again."""
        host = self._tracker.snapshot().node.host
        disabled, reason = arguments.disabled, arguments.disabled_reason
        self._tracker.once(call, lambda: self._registry.set_disabled(host, disabled, reason))
        return next(each for each in self._registry.services() if each.host == host)

    @rpc_method(SCHEDULER, cast=True)
    def update_forced_down(self, arguments: UpdateForcedDown) -> None:
        """Record whether an operator has forced the host down. A scheduler casts it as the answer
        to a report that differs from the schedulers' database, if the agent has a database of its
        own. While the host is forced down, calls that create claims are refused."""
        host = self._tracker.snapshot().node.host
        self._registry.set_forced_down(host, arguments.forced_down)

    @rpc_method(READER)
    def get_restore(self, arguments: Arguments) -> replies.RestoredStore:
        """Return what may be missing from a database that went back in time, as when a backup is
        restored. Until that is accepted, calls that create claims are refused with
        ``StoreRestored``, and audits free nothing."""
        return self._restored_store(self._tracker.restored)

    @rpc_method(
        OPERATOR, errors=("RestoreNotFound", "HypervisorUnavailable", "NodeNotReady"), slow=True
    )
    def accept_restore(self, arguments: AcceptRestore, call: Call) -> replies.RestoredStore:
        """Audit the host, so that everything that runs is counted; then accept the restored
        database, and create claims again."""
        restored = self._tracker.restored
        if restored is not None:
            summary = self._audit()
            if not summary.good:
                raise NodeNotReady(
                    f"the database is not accepted, because the audit was not good: {summary}"
                )
        self._tracker.accept_restore(arguments.revision, call)
        return self._restored_store(restored)

    def _audit(self) -> AuditSummary:
        """Return the summary of an audit that begins now.

        :raises HypervisorUnavailable: it did not end in time.
        """
        try:
            return self._audits.result(self._audit_timeout)
        except TimeoutError as error:
            raise HypervisorUnavailable(
                f"the requested audit has not ended within {self._audit_timeout:g} s: it goes on,"
                " and its summary will be in the agent's log"
            ) from error

    def _restored_store(self, restored: StoreRestore | None) -> replies.RestoredStore:
        return replies.RestoredStore(
            restore=restored,
            sentence="" if restored is None else str(restored),
            orphans=tuple(
                replies.Orphan(domain_uuid=each.domain_uuid, name=each.name, active=each.active)
                for each in drift.orphans(self._tracker.snapshot())
            ),
        )

    @rpc_method(ANY)
    def ping(self, arguments: Arguments) -> replies.Pong:
        """Return the agent's version, host, node and start, the node's revision, the agent's
        uptime, and the time of its clock. It never needs a signature."""
        state = self._tracker.snapshot()
        return replies.Pong(
            version=self._version,
            host=state.node.host,
            node=state.node.hypervisor_hostname,
            revision=state.revision,
            uptime=self._clock.monotonic() - self._started,
            node_uuid=state.node.uuid,
            agent_uuid=self._agent_uuid,
            time=clock_text(self._clock.now()),
        )


Time = Annotated[str, Meta(pattern=TIME, max_length=20)]


class DrainNode(Change, frozen=True, kw_only=True):
    """:ivar reason: for operators and callers.
    :ivar deadline: when the node should be empty, as ``2030-01-31T18:00:00Z``; null: there is no
        deadline. Nothing is stopped then.
    """

    reason: Text = ""
    deadline: Time | None = None


class DrainEndpoint:
    """Serves the methods."""

    def __init__(self, tracker: ResourceTracker) -> None:
        self._tracker = tracker

    @rpc_method(OPERATOR, by_position=("reason",))
    def drain_node(self, arguments: DrainNode, call: Call) -> replies.Draining:
        """Create no claims from now on: every call that would create one is refused with
        ``NodeDraining``. Activations, renewals, ends, moves to other hosts and reads go on. The
        drain lasts until ``undrain_node``, also over restarts. On a node that drains, replace
        reason and deadline."""
        self._tracker.execute(drain, call, arguments.reason, _moment(arguments.deadline))
        return self._draining()

    @rpc_method(OPERATOR)
    def undrain_node(self, arguments: Change, call: Call) -> replies.Draining:
        """Create claims again."""
        self._tracker.execute(undrain, call)
        return self._draining()

    def _draining(self) -> replies.Draining:
        state = self._tracker.snapshot()
        drain = state.drain
        return replies.Draining(
            node=state.node.hypervisor_hostname,
            draining=drain is not None,
            reason=drain.reason if drain else "",
            deadline=drain.deadline if drain else None,
            since=drain.since if drain else None,
            claims=len(state.claims),
        )


def _moment(text: str | None) -> datetime | None:
    """:raises InvalidRequest: there is no such day."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        wrong = {"path": "$.deadline", "message": f"{text!r} is not a time: {error}"}
        raise InvalidRequest(method="drain_node", errors=[wrong]) from error


#: Takes whether the description and the list of instances are wanted.
Ask = Callable[[bool, bool], None]


class ReportHostState(Arguments, frozen=True, kw_only=True):
    """What a scheduler needs.

    :ivar description: also what claims do not change. :ivar instances: also all instances.
    """

    description: bool = False
    instances: bool = False


class HostReportEndpoint:
    """Serves the method."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    @rpc_method(SCHEDULER, cast=True)
    def report_host_state(self, arguments: ReportHostState) -> None:
        """Report the host to all schedulers, after a random part of ``[scheduler] report_jitter``.
        Cast it to one agent or to all: there is no reply."""
        self._ask(arguments.description, arguments.instances)
