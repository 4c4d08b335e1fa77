"""RpcHealth: the health of the part ``rpc``."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.ports import Reporter
from rtagent.rpc.duplicates import Duplicates
from rtagent.rpc.server import PART


class RpcHealth:
    """Combines what the threads ``rpc-probe`` and ``host-lock`` find out.

    :ivar starting: the server starts or has started. While it starts it reports its own health.
    :ivar reached: whether a probe has reached the server since this was set to False.
    :ivar lock_doubt: why the host lock is not held; "": it is.
    :ivar locked: whether the host lock was held when that was last looked at.
    """

    def __init__(
        self, duplicates: Duplicates, started: Callable[[], bool], reporter: Reporter
    ) -> None:
        """:param started: whether the server has started."""
        self._duplicates, self._started = duplicates, started
        self._reporter = reporter.named(__name__)
        self.starting = self.reached = self.locked = False
        self.lock_doubt = self._probe_error = ""

    def probed(self, error: str) -> None:
        """Record a probe.

        :param error: why calls do not reach the server; "": they do.
        """
        self._probe_error, self.reached = error, not error

    def report(self) -> None:
        """Report the worst that is known."""
        if duplicate := self._duplicates.error:
            self._reporter.health(PART, "fail", duplicate.message)
        elif self.starting and not self._started():
            return
        elif self._probe_error:
            self._reporter.health(PART, "fail", self._probe_error)
        elif self.lock_doubt:
            self._reporter.health(PART, "warn", self.lock_doubt)
        elif self.starting:
            self._reporter.health(PART, "pass")
