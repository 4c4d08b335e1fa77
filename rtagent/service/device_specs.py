"""DeviceSpecs: whether the operator's device specifications can be what they are on this host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rtagent.errors import ConfigError, PciConfigInvalidSpec
from rtagent.model.device import Device
from rtagent.model.host import HostState
from rtagent.model.policy import Policy
from rtagent.pci.holds import holds
from rtagent.pci.reporting import forbidden
from rtagent.ports import Reporter
from rtagent.views import CPU, absent

PART = "devices"


class DeviceSpecs:
    """Specifications that say of a device what cannot be said of it, or told to Placement, end a
    start and are refused at a reload, unless somebody holds the device: he keeps it. Of devices
    that come later, audits tell. What is held and gone is a warning."""

    def __init__(
        self,
        snapshot: Callable[[], HostState],
        seen: Callable[[], Sequence[Device] | None],
        reporter: Reporter,
        failed: Callable[[ConfigError], None],
    ) -> None:
        """:param seen: the host's devices as last listed; None: they were not.
        :param failed: told of what is wrong at the first look at the host."""
        self._snapshot, self._seen = snapshot, seen
        self._reporter, self._failed = reporter, failed
        self._accepted = False

    def look(self) -> bool:
        """The host has been looked at: whether it may be served."""
        state = self._snapshot()
        wrong = None if self._accepted else next(self._wrong(state, state.policy), None)
        if wrong is not None:
            self._failed(wrong)
            return False
        self._accepted = True
        lost = ", ".join(drift.resource for drift in absent(state) if drift.unit != CPU)
        told = f"held, and gone or not offered: {lost}; they stay with their holders"
        self._reporter.health(PART, "warn" if lost else "pass", told if lost else "")
        return True

    def check(self, policy: Policy) -> None:
        """Whether this policy could be in force here; devices never listed allow any.

        :raises ConfigError:
        """
        for wrong in self._wrong(self._snapshot(), policy):
            raise wrong

    def _wrong(self, state: HostState, policy: Policy) -> Iterator[PciConfigInvalidSpec]:
        held = {hold.address for hold in holds(state)}
        free = (device for device in self._seen() or () if device.address not in held)
        return forbidden(policy.pci, free)
