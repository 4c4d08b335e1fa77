"""AllHostsFilter: every host."""

from __future__ import annotations

from rtagent.scheduler.filter import Check, Filter
from rtagent.scheduler.request import Request


class AllHostsFilter(Filter):
    """Refuse no host."""

    def prepare(self, request: Request) -> Check | None:
        """Judge nothing."""
        return None
