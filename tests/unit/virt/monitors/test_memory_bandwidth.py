"""The monitor numa.membw, on files as Linux has them."""

from datetime import UTC, datetime

import pytest

from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.virt.monitors.memory_bandwidth import MemoryBandwidthMonitor

AT = datetime(2030, 1, 1, tzinfo=UTC)
MB = 10**6


class Host:
    """Two cells with one last-level cache each."""

    def __init__(self, sys):
        self.sys, self.seconds = sys, 0.0
        for cell, cpus in ((0, "0-1"), (1, "2-3")):
            self.write(f"devices/system/node/node{cell}/cpulist", f"{cpus}\n")
        for cpu in range(4):
            self.write(f"devices/system/cpu/cpu{cpu}/cache/index3/id", f"{cpu // 2}\n")

    def write(self, path, text):
        file = self.sys / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def count(self, cache, text):
        self.write(f"fs/resctrl/mon_data/mon_L3_{cache:02}/mbm_total_bytes", f"{text}\n")

    def monitor(self):
        return MemoryBandwidthMonitor(FakeHypervisor(), self.sys, lambda: self.seconds)


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def values(monitor):
    return {each.name: each.value for each in monitor.measure(AT)}


def test_bandwidth_is_that_since_the_measurement_before(host):
    monitor = host.monitor()
    host.count(0, 5 * MB)
    host.count(1, 0)
    assert values(monitor) == {}
    host.seconds = 2.0
    host.count(0, 25 * MB)
    host.count(1, 2 * MB)
    assert values(monitor) == {
        **{"numa.membw.current": 11.0, "numa.membw.max": 11.0},
        **{"numa.membw.current.0": 10.0, "numa.membw.max.0": 10.0},
        **{"numa.membw.current.1": 1.0, "numa.membw.max.1": 1.0},
    }
    host.seconds = 4.0
    idle = values(monitor)
    assert (idle["numa.membw.current"], idle["numa.membw.max"]) == (0.0, 11.0)


@pytest.mark.parametrize("text", ["Unavailable", "", "-"])
def test_unreadable_counter_is_left_out(host, text):
    monitor = host.monitor()
    for seconds in (0.0, 1.0):
        host.seconds = seconds
        host.count(0, text)
        host.count(1, int(seconds) * MB)
        found = values(monitor)
    assert found.keys() == {
        f"numa.membw.{kind}{cell}" for kind in ("current", "max") for cell in ("", ".1")
    }


def test_host_without_counters_has_no_metrics(tmp_path):
    monitor = MemoryBandwidthMonitor(FakeHypervisor(), tmp_path)
    assert monitor.measure(AT) == monitor.measure(AT) == ()
