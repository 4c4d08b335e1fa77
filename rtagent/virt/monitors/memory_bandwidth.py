"""MemoryBandwidthMonitor: the monitor ``numa.membw``.

Linux counts the memory traffic of each last-level cache where the CPU can (Intel MBM, AMD BMEC),
and shows it in the file system resctrl. The perf events for the same counters are gone from Linux.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from rtagent.model.cpuset import parse_cpu_spec
from rtagent.model.metric import Metric
from rtagent.ports import Hypervisor

SOURCE = "resctrl"
#: The groups of counters of the whole host, one for each last-level cache.
_GROUPS = "fs/resctrl/mon_data/mon_L3_*/mbm_total_bytes"
_CACHE = re.compile(r"mon_L3_(\d+)$")
_MB = 10**6


class MemoryBandwidthMonitor:
    """Measures the memory bandwidth of the host and of each NUMA cell, in MB/s. For one thread.

    :ivar names: of the metrics that a complete measurement has. The highest bandwidth is that of
        all measurements since the agent's start. Those of a cell end in its number.
    """

    names = frozenset(("numa.membw.current", "numa.membw.max"))

    def __init__(
        self,
        hypervisor: Hypervisor,
        sys: Path = Path("/sys"),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param sys: the folder of Linux's ``sys`` files."""
        self._sys, self._monotonic = sys, monotonic
        self._before: tuple[float, Mapping[int, int]] | None = None
        self._max: dict[str, float] = {}

    def measure(self, at: datetime) -> tuple[Metric, ...]:
        """Return the bandwidth since the measurement before. The first one returns nothing."""
        now, counters = self._monotonic(), self._counters()
        before, self._before = self._before, (now, counters)
        if before is None or now <= before[0] or before[1].keys() != counters.keys():
            return ()
        seconds = now - before[0]
        rates = {
            cell: max(0, count - before[1][cell]) / seconds / _MB
            for cell, count in counters.items()
        }
        return tuple(
            Metric(name=name, value=value, timestamp=at, source=SOURCE)
            for name, value in sorted(self._values(rates))
        )

    def _values(self, rates: Mapping[int, float]) -> Iterator[tuple[str, float]]:
        current = {"": sum(rates.values()), **{f".{cell}": rate for cell, rate in rates.items()}}
        for suffix, rate in current.items() if rates else ():
            highest = self._max[suffix] = max(self._max.get(suffix, 0.0), rate)
            yield f"numa.membw.current{suffix}", rate
            yield f"numa.membw.max{suffix}", highest

    def _counters(self) -> dict[int, int]:
        """Return the bytes of each cell since the boot. Unreadable caches are left out."""
        cells = self._cells_of_caches()
        counters: dict[int, int] = {}
        for file in sorted(self._sys.glob(_GROUPS)):
            found = _CACHE.search(file.parent.name)
            try:
                cell, count = cells[int(found[1] if found else "")], int(file.read_text())
            except (OSError, ValueError, KeyError):  # "Unavailable", for example
                continue
            counters[cell] = counters.get(cell, 0) + count
        return counters

    def _cells_of_caches(self) -> dict[int, int]:
        """Return the NUMA cell of each last-level cache, by the cache's id."""
        cells: dict[int, int] = {}
        for node in self._sys.glob("devices/system/node/node[0-9]*"):
            try:
                cpus = parse_cpu_spec((node / "cpulist").read_text().strip())
            except (OSError, ValueError):
                continue
            for cpu in cpus:
                cache = self._sys / f"devices/system/cpu/cpu{cpu}/cache/index3/id"
                try:
                    cells[int(cache.read_text())] = int(node.name.removeprefix("node"))
                except (OSError, ValueError):
                    continue
        return cells
