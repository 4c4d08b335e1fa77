"""The methods of the node and its service (audit, Placement, builds, ping), and their arguments."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.audit import Auditor, AuditSummary
from rtagent.errors import HypervisorUnavailable, NodeNotReady
from rtagent.model.base import Count, Name
from rtagent.model.change import Call
from rtagent.model.store_restore import StoreRestore
from rtagent.ports import Clock, Service, ServiceRegistry
from rtagent.reconcile import drift
from rtagent.rpc import replies
from rtagent.rpc.clock_skew import clock_text
from rtagent.rpc.method import Arguments, Change, rpc_method
from rtagent.rpc.roles import ANY, CONDUCTOR, OPERATOR, READER, SCHEDULER
from rtagent.rpc.shared_call import SharedCall
from rtagent.tracker import ResourceTracker

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
        fields = {name: getattr(summary, name) for name in AuditSummary.__struct_fields__}
        return replies.Audit(**fields, sentence=str(summary))

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
        self._tracker.build_failed(call)

    @rpc_method(CONDUCTOR)
    def build_succeeded(self, arguments: Change, call: Call) -> None:
        """Report a successful build: reset ``stats.failed_builds`` to zero."""
        self._tracker.build_succeeded(call)

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
