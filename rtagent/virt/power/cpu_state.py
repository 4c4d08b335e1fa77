"""Strategy ``cpu_state``: a CPU that nobody uses is offline."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rtagent.virt.power.setting import put


class CpuState:
    """A `CpuPower`. CPU 0, which the kernel keeps online, is none of its (as in Nova).

    :param sysfs: ``/sys/devices/system/cpu``.
    """

    switches_off = True

    def __init__(self, sysfs: Path) -> None:
        self._sysfs = sysfs

    def up(self, cpus: Iterable[int]) -> None:
        self._set(cpus, "1")

    def down(self, cpus: Iterable[int]) -> None:
        self._set(cpus, "0")

    def _set(self, cpus: Iterable[int], online: str) -> None:
        switches = {cpu: self._sysfs / f"cpu{cpu}" / "online" for cpu in sorted(cpus) if cpu}
        put(switches, online)
