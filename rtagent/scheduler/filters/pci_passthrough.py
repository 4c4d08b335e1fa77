"""PciPassthroughFilter: hosts that have the requested devices."""

from __future__ import annotations

from rtagent.pci.requests import EXTRA_SPEC
from rtagent.scheduler.filter import Check, Filter
from rtagent.scheduler.fits import fit_check
from rtagent.scheduler.request import Request


class PciPassthroughFilter(Filter):
    """Refuse a host that the claim of a guest with PCI devices does not fit.

    The agents' own rule decides, with the host's own aliases.
    """

    cost = 2
    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge guests with devices of an alias or of a port."""
        asked = request.spec.pci_requests or request.spec.flavor.extra_specs.get(EXTRA_SPEC)
        return fit_check(request) if asked else None
