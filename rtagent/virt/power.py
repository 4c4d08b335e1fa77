"""CPU power management: one strategy per value of ``[libvirt] cpu_power_management_strategy``."""

from collections.abc import Iterable
from pathlib import Path

from rtagent.errors import CpuPowerFailed
from rtagent.ports import CpuPower
from rtagent.virt.libvirt.workers import CallWorkers

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
    if name == "governor":
        return Strategy(sysfs, "cpufreq/scaling_governor", low, high, timeout)
    return Strategy(sysfs, "online", "0", "1", timeout)


class Strategy:
    """A `CpuPower`: it takes unused CPUs offline, or gives them a governor that saves power.

    CPU 0 is not taken offline, as in Nova: Linux does not do that.

    A CPU whose change hangs is not changed again until that change returns. Otherwise a CPU that is
    being switched off, and still reads as on, would pass as ready for a guest. Thread-safe.

    :param sysfs: ``/sys/devices/system/cpu``. :param file: the file of each CPU that is written.
    :param low: its content for unused CPUs. :param high: its content for CPUs in use.
    """

    def __init__(self, sysfs: Path, file: str, low: str, high: str, timeout: float) -> None:
        self._sysfs, self._file = sysfs, file
        self._low, self._high = low, high
        self._timeout, self._workers = timeout, CallWorkers(timeout)
        self._under_way: set[int] = set()
        self.switches_off = file == "online"

    def up(self, cpus: Iterable[int]) -> None:
        self._set(cpus, self._high)

    def down(self, cpus: Iterable[int]) -> None:
        self._set(cpus, self._low)

    def _set(self, cpus: Iterable[int], wanted: str) -> None:
        """Write the value to the file of each CPU whose file has another value.

        :raises CpuPowerFailed: for the first CPU that failed, after all were tried; or at once for
            a CPU whose change hangs.
        """
        switched = sorted(cpu for cpu in cpus if cpu or not self.switches_off)
        files = {cpu: self._sysfs / f"cpu{cpu}" / self._file for cpu in switched}

        def failed(cpu: int, why: str) -> CpuPowerFailed:
            return CpuPowerFailed(cpu=cpu, file=str(files[cpu]), wanted=wanted, why=why)

        def write(cpu: int) -> CpuPowerFailed | None:
            self._under_way.add(cpu)
            why = _write_one(files[cpu], wanted)
            self._under_way.discard(cpu)
            return failed(cpu, why) if why else None

        def hung(cpu: int) -> CpuPowerFailed | None:
            raise failed(cpu, f"no answer within {self._timeout:g} s")

        for cpu in self._under_way.intersection(files):
            raise failed(cpu, "an earlier change has not returned yet")
        try:
            failures = list(filter(None, self._workers.each(write, switched, hung)))
        except TimeoutError as error:
            raise failed(switched[0], str(error)) from error
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
