"""Pulse: whether calls come through, found out by calling ourselves."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.errors import RtAgentError
from rtagent.ports import Reporter
from rtagent.rpc.client import UNANSWERED
from rtagent.rpc.server import PART
from rtagent.service.loop import Rest, every


class Pulse:
    """The turns of the pulse thread."""

    def __init__(
        self,
        serving: Callable[[], bool],
        ping: Callable[[], object],
        reporter: Reporter,
        *,
        interval: Callable[[], float],
    ) -> None:
        """:param serving: whether the RPC server has started; until then it reports itself.
        :param ping: a call to ourselves, by way of the message broker; its wait has an end.
        :param interval: seconds between two of them.
        """
        self._serving, self._ping = serving, ping
        self._reporter, self._interval = reporter, interval

    def turn(self) -> Rest:
        """One call."""
        if self._serving():
            try:
                self._ping()
            except (RtAgentError, *UNANSWERED) as error:
                self._reporter.health(PART, "fail", f"no call comes through: {error}")
            else:
                self._reporter.health(PART, "pass")
        return every(self._interval())
