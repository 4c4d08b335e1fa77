"""Descriptions of hosts, kept once for all hosts that have the same."""

from __future__ import annotations

from collections import Counter

from rtagent.errors import InvalidRequest
from rtagent.model.host_report import HostDescription, HostReport
from rtagent.scheduler.report import digest_of


class Descriptions:
    """Descriptions by digest, as long as a host has them. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, HostDescription] = {}
        self._users: Counter[str] = Counter()

    def find(self, report: HostReport) -> HostDescription | None:
        """Return the description of a report; None: it is not known.

        :raises InvalidRequest: the report's own description has another digest. Other hosts could
            get it.
        """
        known = self._known.get(report.digest)
        if known is not None or report.description is None:
            return known
        digest = digest_of(report.description)
        if digest != report.digest:
            errors = [{"path": "$.report.digest", "message": f"must be {digest}"}]
            raise InvalidRequest(method="update_host_state", errors=errors)
        return report.description

    def replace(
        self, before: str | None, after: str | None, description: HostDescription | None
    ) -> None:
        """Note that a host has another description. :param before: its digest, or None."""
        if after is not None and description is not None:
            self._users[after] += 1
            self._known[after] = description
        if before is not None:
            self._users[before] -= 1
            if not self._users[before]:
                del self._users[before], self._known[before]
