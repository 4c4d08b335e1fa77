"""The monitor cpu.virt_driver."""

from datetime import UTC, datetime

import pytest

from rtagent.errors import HypervisorUnavailable
from rtagent.model.metric import CpuUse
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.virt.monitors.cpu import VirtDriverMonitor

AT = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def host():
    return FakeHypervisor()


def use(user, kernel, idle, iowait):
    times = {"user": user, "kernel": kernel, "idle": idle, "iowait": iowait}
    return CpuUse(times=times, frequency=2594)


def values(monitor):
    metrics = monitor.measure(AT)
    assert all((each.timestamp, each.source) == (AT, "libvirt.LibvirtDriver") for each in metrics)
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


def test_lost_hypervisor_is_an_error(host):
    host.lost = True
    with pytest.raises(HypervisorUnavailable):
        VirtDriverMonitor(host).measure(AT)
