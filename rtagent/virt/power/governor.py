"""Strategy ``governor``: a CPU that nobody uses has a governor that saves power."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rtagent.virt.power.setting import put


class Governor:
    """A `CpuPower`.

    :param sysfs: ``/sys/devices/system/cpu``. :param low: and high: names of governors.
    """

    switches_off = False

    def __init__(self, sysfs: Path, low: str, high: str) -> None:
        self._sysfs, self._low, self._high = sysfs, low, high

    def up(self, cpus: Iterable[int]) -> None:
        self._set(cpus, self._high)

    def down(self, cpus: Iterable[int]) -> None:
        self._set(cpus, self._low)

    def _set(self, cpus: Iterable[int], governor: str) -> None:
        directories = {cpu: self._sysfs / f"cpu{cpu}" / "cpufreq" for cpu in sorted(cpus)}
        put({cpu: here / "scaling_governor" for cpu, here in directories.items()}, governor)
