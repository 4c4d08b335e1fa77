"""ComputeFilter: hosts whose service is enabled and up."""

from __future__ import annotations

from rtagent.scheduler.filter import Check, Filter, Rejection
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request


class ComputeFilter(Filter):
    """Refuse a host that drains, or grants no claims, or whose service is disabled, forced down or
    silent.
    """

    def prepare(self, request: Request) -> Check | None:
        """Judge every request."""
        alive_since = request.alive_since

        def check(host: HostState) -> Rejection | None:
            service = host.service
            if (
                host.up
                and host.seen >= alive_since
                and not service.disabled
                and not service.forced_down
                and service.draining is None
            ):
                return None
            return _rejection(host, alive_since)

        return check


def _rejection(host: HostState, alive_since: float) -> Rejection:
    service = host.service
    if service.disabled:
        reason = service.disabled_reason
        return Rejection(f"its service is disabled{f': {reason}' if reason else ''}")
    if service.forced_down:
        return Rejection("its service is forced down")
    if service.draining is not None:
        reason = service.draining
        return Rejection(f"it is being drained{f': {reason}' if reason else ''}")
    if host.seen < alive_since:
        late = alive_since - host.seen
        return Rejection(
            f"its agent is down: its last report came {late:.1f} s before the oldest that counts"
        )
    return Rejection(f"its agent grants no claims: {host.why_not or 'it does not say why'}")
