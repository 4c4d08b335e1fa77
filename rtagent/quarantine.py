"""Devices that the operator keeps back, and those that he gives free again: pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from rtagent.errors import PciDeviceNotFound
from rtagent.model.change import Call
from rtagent.model.decision import Granted
from rtagent.model.host import HostState
from rtagent.transitions import change, record


def quarantine(
    state: HostState, address: str, reason: str | None, call: Call, now: datetime
) -> Granted:
    """Have nobody get the device from now on, for a reason; None: have it given out again. Who
    holds it keeps it.

    :raises PciDeviceNotFound:
    """
    device = state.devices.get(address)
    if device is None:
        raise PciDeviceNotFound(address=address)
    new = replace(device, quarantine=reason)
    puts = (new,) if new != device else ()
    return Granted(change(call, now, devices=puts, operations=(record(call),)))
