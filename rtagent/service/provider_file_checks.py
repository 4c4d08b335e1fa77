"""ProviderFileChecks: check that provider files do not contradict this host.

Files that do stop the start, and are refused at a reload. A contradiction that appears later, with
a device, causes a warning.
"""

from __future__ import annotations

from typing import Protocol

from rtagent.conf.settings import Settings
from rtagent.model.printable import printable
from rtagent.placement.offers import Offers
from rtagent.service.context import NodeContext

#: The part of health that the checks report.
PART = "provider_files"


class Host(Protocol):
    """The host; implemented by `rtagent.embedded.EmbeddedNode`."""

    def offers_from(self, settings: Settings) -> Offers:
        """Return what the provider files of these settings add to this host."""
        ...


class ProviderFileChecks:
    """Checks the files against the host after each audit, and before a reload."""

    def __init__(self, context: NodeContext, host: Host) -> None:
        self._context, self._host = context, host
        self._reporter = context.reporter.named(__name__)
        self._accepted = False
        # Entries without a provider of which the log has a line.
        self._absent: frozenset[str] = frozenset()

    def accept(self) -> bool:
        """Check the files in force after a good audit; return whether the node can be served.

        Files that do not fit at the first check are fatal.
        """
        offers = self._host.offers_from(self._context.settings.current)
        self._log_absent(offers)
        texts = [error.message for error in offers.mistakes]
        if texts and not self._accepted:
            for text in texts[1:]:  # the first one is the last line of the log
                self._reporter.log("error", text)
            self._context.events.fatal(offers.mistakes[0])
            return False
        self._accepted = True
        self._reporter.health(PART, "warn" if texts else "pass", "; ".join(texts))
        return True

    def check(self, settings: Settings) -> None:
        """Check new files. :raises ExceptionGroup: of `ConfigError`: every mistake."""
        if mistakes := self._host.offers_from(settings).mistakes:
            raise ExceptionGroup("the provider files do not fit this host", mistakes)

    def _log_absent(self, offers: Offers) -> None:
        """Log each entry whose provider is absent, once until the provider is there."""
        for entry in offers.absent:
            if entry.origin not in self._absent:
                self._reporter.log(
                    "warning",
                    f"{entry.origin}: this host has no provider"
                    f" {printable(entry.identification)}: ignored until it has",
                )
        self._absent = frozenset(entry.origin for entry in offers.absent)
