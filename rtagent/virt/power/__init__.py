"""Strategies of CPU power management, each in the file that is named like the option's value."""

from __future__ import annotations

from pathlib import Path

from rtagent.ports import CpuPower
from rtagent.virt.power.cpu_state import CpuState
from rtagent.virt.power.governor import Governor

SYSFS = Path("/sys/devices/system/cpu")


def strategy(name: str, low: str, high: str, sysfs: Path = SYSFS) -> CpuPower:
    """By the name that selects it: ``cpu_state`` or ``governor``.

    :param low: and high: governors of CPUs that nobody uses, and of those that somebody does.
    """
    if name == "governor":
        return Governor(sysfs, low, high)
    return CpuState(sysfs)


__all__ = ["CpuState", "Governor", "strategy"]
