"""The method by which a scheduler asks agents to report their hosts."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.rpc.method import Arguments, rpc_method
from rtagent.rpc.roles import SCHEDULER

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
