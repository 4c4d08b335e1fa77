"""States of devices, and the reasons why a device itself is unavailable.

A state is derived from the users of the device, of its physical function, of its virtual functions
and of its IOMMU group. It is never stored as a fact, so it cannot be stale (LP1969496: virtual
functions stayed unavailable after a crash).
"""

from __future__ import annotations

from typing import Final

from rtagent.model.base import Value
from rtagent.model.device import PciDevice

#: Free: any claim may use it.
AVAILABLE: Final = "available"
#: Used by a claim whose guest does not run yet.
CLAIMED: Final = "claimed"
#: Used by a claim whose guest runs, or by a domain without a claim.
ALLOCATED: Final = "allocated"
#: Not in use. The device has left the host or its specification. It stays recorded until the next
#: refresh, or until its quarantine ends.
REMOVED: Final = "removed"
#: Free, but a related device is claimed.
UNCLAIMABLE: Final = "unclaimable"
#: Free, but a related device is allocated, or the device is quarantined.
UNAVAILABLE: Final = "unavailable"

STATES: Final = (AVAILABLE, CLAIMED, ALLOCATED, REMOVED, UNCLAIMABLE, UNAVAILABLE)


class Unavailability(Value, frozen=True, kw_only=True):
    """Why a free device is unavailable. :ivar state: one of `STATES`, never `AVAILABLE`."""

    state: str
    reason: str


class DeviceState(Value, frozen=True, kw_only=True):
    """A device with its state, for listings.

    :ivar owner_id: the owner that uses the device, or None.
    :ivar reason: the reason of the state, or "" if the state needs no explanation.
    """

    device: PciDevice
    state: str
    owner_id: str | None = None
    reason: str = ""


def own_unavailability(recorded: PciDevice) -> Unavailability | None:
    """Return why the device itself is unavailable, regardless of related devices; None if it is
    available.
    """
    reason = absence_reason(recorded)
    if reason is not None:
        return Unavailability(state=REMOVED, reason=reason)
    if recorded.quarantine is not None:
        return Unavailability(state=UNAVAILABLE, reason=recorded.quarantine)
    return None


def absence_reason(recorded: PciDevice) -> str | None:
    """Return why a recorded device can no longer be assigned, or None.

    A device that is in use keeps its user, and is shown with this reason.
    """
    if not recorded.present:
        return "it has left the host"
    if not recorded.listed:
        return "no device_spec matches it any more"
    return None
