"""BuildFailures: disable the service when so many builds have failed in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rtagent.errors import StoreUnavailable
from rtagent.model.change import Change
from rtagent.service.context import NodeContext
from rtagent.service.heartbeat import Heartbeat
from rtagent.service.loop import Rest


class BuildFailures:
    """Follows the published changes. It disables at each multiple of the threshold, so that a
    service that an operator has enabled again has as many attempts as before. A good build
    enables nothing.
    """

    def __init__(self, context: NodeContext, heartbeat: Heartbeat, host: str) -> None:
        self._context, self._heartbeat, self._host = context, heartbeat, host
        self._reporter = context.reporter.named(__name__)
        self._wake: Callable[[], None] = lambda: None
        self._failed = 0

    def attach(self, wake: Callable[[], None]) -> None:
        """Call `wake` to run the next turn."""
        self._wake = wake

    def listener(self, _: object, changes: Sequence[Change]) -> None:
        """Note whether the service is to be disabled. Returns at once."""
        options = self._context.settings.current.compute
        threshold = options.consecutive_build_service_disable_threshold
        for change in changes:
            if threshold and change.failed_builds and change.failed_builds % threshold == 0:
                self._failed = change.failed_builds
                self._wake()

    def beat(self) -> Rest:
        """Make a turn of the heartbeat; then disable the service, if that is due."""
        rest = self._heartbeat.turn()
        self._settle()
        return rest

    def _settle(self) -> None:
        """Disable the service, if that is due; if the database does not answer, later."""
        failed = self._failed
        if not failed:
            return
        reason = f"Auto-disabled due to {failed} build failures"
        try:
            if not self._heartbeat.state.disabled:  # an operator's reason stays
                self._heartbeat.set_disabled(self._host, True, reason)
                self._reporter.log(
                    "error", f"{reason}: rtagent service enable ends that, a good build does not"
                )
        except StoreUnavailable:
            return
        if self._failed == failed:
            self._failed = 0
