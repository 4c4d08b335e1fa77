"""VirtDriverMonitor: the monitor ``cpu.virt_driver``, with Nova's names and rules."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from rtagent.model.metric import CpuUse, Metric
from rtagent.ports import Hypervisor

#: The source of a metric, as in Nova: the hypervisor's driver.
SOURCE = "libvirt.LibvirtDriver"
#: What the CPUs do with their time.
USES = ("user", "kernel", "idle", "iowait")


class VirtDriverMonitor:
    """Measures the use of the host's CPUs, as the hypervisor reports it. For one thread.

    A percentage is a fraction of 1, of the time since the measurement before; for the first one,
    since the boot.

    :ivar names: of the metrics that a complete measurement has.
    """

    names = frozenset(
        (
            "cpu.frequency",
            "cpu.percent",
            *(f"cpu.{use}.{kind}" for use in USES for kind in ("time", "percent")),
        )
    )

    def __init__(self, hypervisor: Hypervisor) -> None:
        self._hypervisor = hypervisor
        self._before: Mapping[str, int] = {}

    def measure(self, at: datetime) -> tuple[Metric, ...]:
        """Return what the hypervisor reports now.

        :raises HypervisorUnavailable:
        """
        use = self._hypervisor.cpu_use()
        values = dict(_values(self._before, use))
        self._before = use.times
        return tuple(
            Metric(name=name, value=value, timestamp=at, source=SOURCE)
            for name, value in sorted(values.items())
        )


def _values(before: Mapping[str, int], use: CpuUse) -> Iterator[tuple[str, float]]:
    if use.frequency is not None:
        yield "cpu.frequency", float(use.frequency)
    times = {name: use.times[name] for name in USES if name in use.times}
    spent = {name: max(time - before.get(name, 0), 0) for name, time in times.items()}
    total = sum(spent.values())
    for name, time in times.items():
        yield f"cpu.{name}.time", float(time)
        yield f"cpu.{name}.percent", spent[name] / total if total else 0.0
    if "idle" in times:
        yield "cpu.percent", 1.0 - spent["idle"] / total if total else 0.0
