"""The use of the host's CPUs, as libvirt reports it."""

from __future__ import annotations

import libvirt

from rtagent.model.metric import CpuUse
from rtagent.virt.libvirt.connection import Session, optional

#: The place of the frequency in MHz in the list of `virNodeGetInfo`.
_FREQUENCY = 3


def read(session: Session) -> CpuUse:
    """Return what the driver reports of all CPUs together. Not every driver has the times, and not
    every platform has a frequency.

    :raises libvirt.libvirtError: the connection is broken.
    """
    times: dict[str, int] = {}
    frequency = 0
    with optional(session):
        times = session.virt.getCPUStats(libvirt.VIR_NODE_CPU_STATS_ALL_CPUS)
    with optional(session):
        frequency = session.virt.getInfo()[_FREQUENCY]
    return CpuUse(times=times, frequency=frequency or None)
