"""SameHostFilter and DifferentHostFilter: hosts with, or without, certain instances."""

from __future__ import annotations

from rtagent.scheduler.filter import Check, Filter, Rejection
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request


class SameHostFilter(Filter):
    """Refuse a host that has none of the instances of the hint ``same_host``."""

    cost = 1

    def prepare(self, request: Request) -> Check | None:
        """Judge requests with the hint."""
        wanted = request.spec.hint("same_host")
        if not wanted:
            return None
        rejection = Rejection("it has none of the instances of the hint same_host")
        return lambda host: rejection if host.instances_here.isdisjoint(wanted) else None


class DifferentHostFilter(Filter):
    """Refuse a host that has one of the instances of the hint ``different_host``, even one that is
    still moving there.
    """

    cost = 1

    def prepare(self, request: Request) -> Check | None:
        """Judge requests with the hint."""
        avoided = request.spec.hint("different_host")

        def check(host: HostState) -> Rejection | None:
            for uuid in avoided:
                if uuid in host.instances:
                    return Rejection(f"it has the instance {uuid} of the hint different_host")
            return None

        return check if avoided else None
