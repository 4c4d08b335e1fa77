"""Monitors: by name, cpu.virt_driver, and numa.membw on files as Linux has them."""

from datetime import UTC, datetime

import pytest

from rtagent.errors import ConfigError
from rtagent.model.metric import CpuUse
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.virt.monitors import check, load
from rtagent.virt.monitors.cpu import VirtDriverMonitor
from rtagent.virt.monitors.memory_bandwidth import MemoryBandwidthMonitor


def test_monitors_are_loaded_in_the_order_of_their_names():
    monitors = load(["numa.membw", "cpu.virt_driver", "numa.membw"], FakeHypervisor())
    assert list(monitors) == ["numa.membw", "cpu.virt_driver"]
    assert isinstance(monitors["cpu.virt_driver"], VirtDriverMonitor)


@pytest.mark.parametrize("names", [["cpu.other"], ["virt_driver"], ["cpu.virt_driver", ""]])
def test_unknown_monitor_is_refused_with_the_known_ones(names):
    with pytest.raises(ConfigError) as caught:
        check(names)
    (unknown,) = set(names) - {"cpu.virt_driver"}
    name = f"[DEFAULT] compute_monitors = {unknown}"
    installed = "cpu.virt_driver, numa.membw"
    assert str(caught.value) == f"{name}: is not installed. Installed are: {installed}"


def test_two_monitors_of_one_type_are_refused():
    with pytest.raises(ConfigError, match="two monitors of one type"):
        check(["cpu.virt_driver", "cpu.other"])


AT = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def host():
    return FakeHypervisor()


def use(user, kernel, idle, iowait):
    times = {"user": user, "kernel": kernel, "idle": idle, "iowait": iowait}
    return CpuUse(times=times, frequency=2594)


def values(monitor):
    metrics = monitor.measure(AT)
    sources = {"cpu": "libvirt.LibvirtDriver", "numa": "resctrl"}
    for each in metrics:
        assert (each.timestamp, each.source) == (AT, sources[each.name.partition(".")[0]])
    return {each.name: each.value for each in metrics}


def test_percentages_are_of_the_time_since_the_measurement_before(host):
    monitor = VirtDriverMonitor(host)
    host.cpus = use(100, 100, 800, 0)
    first = values(monitor)
    assert first.keys() == monitor.names
    assert first["cpu.percent"] == pytest.approx(0.2)
    assert (first["cpu.frequency"], first["cpu.idle.time"]) == (2594, 800)
    host.cpus = use(130, 120, 840, 10)
    second = values(monitor)
    assert second["cpu.user.percent"] == pytest.approx(0.3)
    assert second["cpu.kernel.percent"] == pytest.approx(0.2)
    assert second["cpu.iowait.percent"] == pytest.approx(0.1)
    assert second["cpu.idle.percent"] == pytest.approx(0.4)
    assert second["cpu.percent"] == pytest.approx(0.6)
    assert second["cpu.user.time"] == 130


def test_percentages_are_0_if_no_time_has_passed(host):
    monitor = VirtDriverMonitor(host)
    host.cpus = use(1, 1, 8, 0)
    values(monitor)
    assert values(monitor)["cpu.percent"] == values(monitor)["cpu.idle.percent"] == 0.0


def test_counters_that_went_back_give_no_negative_percentage(host):
    monitor = VirtDriverMonitor(host)
    host.cpus = use(100, 100, 100, 100)
    values(monitor)
    host.cpus = use(10, 110, 110, 100)
    assert all(0.0 <= each <= 1.0 for name, each in values(monitor).items() if "percent" in name)


def test_unavailable_values_are_left_out(host):
    monitor = VirtDriverMonitor(host)
    assert values(monitor) == {}
    host.cpus = CpuUse(frequency=1400)
    assert values(monitor) == {"cpu.frequency": 1400}
    host.cpus = CpuUse(times={"user": 1, "kernel": 3})
    assert values(monitor).keys() == {
        *("cpu.user.time", "cpu.user.percent", "cpu.kernel.time", "cpu.kernel.percent")
    }


MB = 10**6


class Linux:
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
def linux(tmp_path):
    return Linux(tmp_path)


def test_bandwidth_is_that_since_the_measurement_before(linux):
    monitor = linux.monitor()
    linux.count(0, 5 * MB)
    linux.count(1, 0)
    assert values(monitor) == {}
    linux.seconds = 2.0
    linux.count(0, 25 * MB)
    linux.count(1, 2 * MB)
    assert values(monitor) == {
        **{"numa.membw.current": 11.0, "numa.membw.max": 11.0},
        **{"numa.membw.current.0": 10.0, "numa.membw.max.0": 10.0},
        **{"numa.membw.current.1": 1.0, "numa.membw.max.1": 1.0},
    }
    linux.seconds = 4.0
    idle = values(monitor)
    assert (idle["numa.membw.current"], idle["numa.membw.max"]) == (0.0, 11.0)


@pytest.mark.parametrize("text", ["Unavailable", "", "-"])
def test_unreadable_counter_is_left_out(linux, text):
    monitor = linux.monitor()
    for seconds in (0.0, 1.0):
        linux.seconds = seconds
        linux.count(0, text)
        linux.count(1, int(seconds) * MB)
        found = values(monitor)
    kinds = ("current", "current.1", "max", "max.1")
    assert found.keys() == {f"numa.membw.{kind}" for kind in kinds}


def test_host_without_counters_has_no_metrics(tmp_path):
    monitor = MemoryBandwidthMonitor(FakeHypervisor(), tmp_path)
    assert monitor.measure(AT) == monitor.measure(AT) == ()
