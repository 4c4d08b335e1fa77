"""Devices in quarantine: unavailable until the operator clears them. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from rtagent.errors import PciDeviceNotFound
from rtagent.model.change import Call
from rtagent.model.decision import Granted
from rtagent.model.node_state import NodeState


def quarantine(
    state: NodeState, call: Call, now: datetime, address: str, reason: str | None
) -> Granted:
    """Put a device into quarantine, or clear it. A claim that has the device keeps it.

    :param reason: why it is unavailable; None: it is available again.
    :raises PciDeviceNotFound: the device is unknown.
    """
    device = state.devices.get(address)
    if device is None:
        raise PciDeviceNotFound(address=address)
    new = replace(device, quarantine=reason)
    puts = (new,) if new != device else ()
    return Granted(call.change(now, devices=puts, operations=(call.operation(),)))
