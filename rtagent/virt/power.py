"""CPU power management: one strategy per value of ``[libvirt] cpu_power_management_strategy``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rtagent.errors import CpuPowerFailed
from rtagent.ports import CpuPower

SYSFS = Path("/sys/devices/system/cpu")


def strategy(name: str, low: str, high: str, sysfs: Path = SYSFS) -> CpuPower:
    """Return the strategy of that name: ``cpu_state`` or ``governor``.

    :param low: governor of unused CPUs. :param high: governor of CPUs in use.
    """
    if name == "governor":
        return Governor(sysfs, low, high)
    return CpuState(sysfs)


class CpuState:
    """A `CpuPower` that takes unused CPUs offline. CPU 0 stays online, as in Nova: Linux does not
    take it offline.

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
        _write(switches, online)


class Governor:
    """A `CpuPower` that gives unused CPUs a governor that saves power.

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
        _write({cpu: here / "scaling_governor" for cpu, here in directories.items()}, governor)


def _write(files: Mapping[int, Path], wanted: str) -> None:
    """Write the value to the file of each CPU whose file has another value.

    :raises CpuPowerFailed: for the first CPU that failed, after all were tried.
    """
    failed = [error for cpu, file in files.items() if (error := _write_one(cpu, file, wanted))]
    if failed:
        raise failed[0]


def _write_one(cpu: int, file: Path, wanted: str) -> CpuPowerFailed | None:
    try:
        if file.read_text().strip() != wanted:
            file.write_text(wanted)
    except OSError as exc:
        return CpuPowerFailed(cpu=cpu, file=str(file), wanted=wanted, why=exc.strerror)
    return None
