"""CPU power management: one strategy per value of ``[libvirt] cpu_power_management_strategy``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rtagent.errors import CpuPowerFailed
from rtagent.ports import CpuPower
from rtagent.virt.libvirt.workers import Workers

SYSFS = Path("/sys/devices/system/cpu")
#: Seconds within which Linux switches a CPU. It takes some ten milliseconds, and a defect in a
#: driver may make it hang.
TIMEOUT = 5.0


def strategy(
    name: str, low: str, high: str, sysfs: Path = SYSFS, timeout: float = TIMEOUT
) -> CpuPower:
    """Return the strategy of that name: ``cpu_state`` or ``governor``.

    :param low: governor of unused CPUs. :param high: governor of CPUs in use.
    :param timeout: seconds for each CPU.
    """
    files = CpuFiles(timeout)
    if name == "governor":
        return Governor(sysfs, files, low, high)
    return CpuState(sysfs, files)


class CpuState:
    """A `CpuPower` that takes unused CPUs offline. CPU 0 stays online, as in Nova: Linux does not
    take it offline.

    :param sysfs: ``/sys/devices/system/cpu``.
    """

    switches_off = True

    def __init__(self, sysfs: Path, files: CpuFiles) -> None:
        self._sysfs, self._files = sysfs, files

    def up(self, cpus: Iterable[int]) -> None:
        self._set(cpus, "1")

    def down(self, cpus: Iterable[int]) -> None:
        self._set(cpus, "0")

    def _set(self, cpus: Iterable[int], online: str) -> None:
        switches = {cpu: self._sysfs / f"cpu{cpu}" / "online" for cpu in sorted(cpus) if cpu}
        self._files.write(switches, online)


class Governor:
    """A `CpuPower` that gives unused CPUs a governor that saves power.

    :param sysfs: ``/sys/devices/system/cpu``. :param low: and high: names of governors.
    """

    switches_off = False

    def __init__(self, sysfs: Path, files: CpuFiles, low: str, high: str) -> None:
        self._sysfs, self._files = sysfs, files
        self._low, self._high = low, high

    def up(self, cpus: Iterable[int]) -> None:
        self._set(cpus, self._high)

    def down(self, cpus: Iterable[int]) -> None:
        self._set(cpus, self._low)

    def _set(self, cpus: Iterable[int], governor: str) -> None:
        directories = {cpu: self._sysfs / f"cpu{cpu}" / "cpufreq" for cpu in sorted(cpus)}
        files = {cpu: here / "scaling_governor" for cpu, here in directories.items()}
        self._files.write(files, governor)


class CpuFiles:
    """Writes the files of CPUs, each within a bounded time. Thread-safe.

    A CPU whose change hangs is not changed again until that change returns. Otherwise a CPU that is
    being switched off, and still reads as on, would pass as ready for a guest.
    """

    def __init__(self, timeout: float) -> None:
        """:param timeout: seconds for each file."""
        self._timeout = timeout
        self._workers = Workers(timeout)
        self._under_way: set[int] = set()

    def write(self, files: Mapping[int, Path], wanted: str) -> None:
        """Write the value to the file of each CPU whose file has another value.

        :raises CpuPowerFailed: for the first CPU that failed, after all were tried; or at once for
            a CPU whose change hangs.
        """

        def failed(cpu: int, why: str) -> CpuPowerFailed:
            return CpuPowerFailed(cpu=cpu, file=str(files[cpu]), wanted=wanted, why=why)

        def write(cpu: int) -> CpuPowerFailed | None:
            self._under_way.add(cpu)
            why = _write_one(files[cpu], wanted)
            self._under_way.discard(cpu)
            return failed(cpu, why) if why else None

        def hung(cpu: int) -> CpuPowerFailed | None:
            raise failed(cpu, f"no answer within {self._timeout:g} s")

        if not files:
            return
        for cpu in self._under_way.intersection(files):
            raise failed(cpu, "an earlier change has not returned yet")
        try:
            failures = list(filter(None, self._workers.each(write, list(files), hung)))
        except TimeoutError as error:
            raise failed(next(iter(files)), str(error)) from error
        if failures:
            raise failures[0]


def _write_one(file: Path, wanted: str) -> str:
    """Write a file that has another value. Return why that failed, or ""."""
    try:
        if file.read_text(errors="replace").strip() != wanted:
            file.write_text(wanted)
    except OSError as error:
        return error.strerror or str(error)
    return ""
