"""The methods of the node and its service (audit, Placement, builds, ping), and their arguments."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.audit import Auditor, AuditSummary
from rtagent.errors import HypervisorUnavailable
from rtagent.model.base import Name
from rtagent.model.change import Call
from rtagent.ports import Clock, Service, ServiceRegistry
from rtagent.rpc import replies
from rtagent.rpc.method import Arguments, Change, rpc_method
from rtagent.rpc.shared_call import SharedCall
from rtagent.tracker import ResourceTracker

#: Seconds for which a caller waits for the audit that it has requested. Less than the agent's stop
#: waits for calls in flight.
AUDIT_TIMEOUT = 25.0


class SetService(Change, frozen=True, kw_only=True):
    """Whether the scheduler may select the host."""

    disabled: bool
    disabled_reason: Name | None = None


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
    ) -> None:
        """:param version: of the software.
        :param sync_placement: updates Placement and returns the revision that Placement then has;
            raises `PlacementError`.
        """
        self._tracker, self._registry = tracker, registry
        self._audits = SharedCall("requested-audit", lambda: auditor.run("request"))
        self._clock, self._version, self._sync_placement = clock, version, sync_placement
        self._started = clock.monotonic()

    @rpc_method(errors=("HypervisorUnavailable", "TrackerBusy"), slow=True)
    def update_available_resource(self, arguments: Arguments) -> replies.Audit:
        """Run an audit now and return its summary. Callers that wait at the same time share the
        next audit."""
        try:
            summary = self._audits.result(AUDIT_TIMEOUT)
        except TimeoutError as error:
            raise HypervisorUnavailable(
                f"the requested audit has not ended within {AUDIT_TIMEOUT:g} s: it goes on, and"
                " its summary will be in the agent's log"
            ) from error
        fields = {name: getattr(summary, name) for name in AuditSummary.__struct_fields__}
        return replies.Audit(**fields, sentence=str(summary))

    @rpc_method(
        errors=("PlacementError", "PlacementConflict", "PlacementUnavailable", "NodeNotReady"),
        slow=True,
    )
    def sync_placement(self, arguments: Arguments) -> replies.Mirrored:
        """Read Placement's records of this host again and correct every difference. The reply is
        sent when that is done. Callers that wait at the same time share the next
        synchronisation."""
        return replies.Mirrored(revision=self._sync_placement())

    @rpc_method()
    def build_failed(self, arguments: Change, call: Call) -> None:
        """Count a failed build: increment ``stats.failed_builds``."""
        self._tracker.build_failed(call)

    @rpc_method()
    def build_succeeded(self, arguments: Change, call: Call) -> None:
        """Report a successful build: reset ``stats.failed_builds`` to zero."""
        self._tracker.build_succeeded(call)

    @rpc_method(by_position=("disabled_reason",), slow=True)
    def set_service(self, arguments: SetService, call: Call) -> Service:
        """Disable the host for scheduling, with a reason, or enable it again."""
        host = self._tracker.snapshot().node.host
        disabled, reason = arguments.disabled, arguments.disabled_reason
        self._tracker.once(call, lambda: self._registry.set_disabled(host, disabled, reason))
        return next(each for each in self._registry.services() if each.host == host)

    @rpc_method()
    def ping(self, arguments: Arguments) -> replies.Pong:
        """Return the agent's version, host and node, the node's revision, and the agent's
        uptime."""
        state = self._tracker.snapshot()
        return replies.Pong(
            version=self._version,
            host=state.node.host,
            node=state.node.hypervisor_hostname,
            revision=state.revision,
            uptime=self._clock.monotonic() - self._started,
        )
