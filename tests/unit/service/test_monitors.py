"""Measurements: when they are made, and where they go."""

import math
from typing import Any

import pytest

from rtagent.errors import StoreUnavailable
from rtagent.model.event import MetricsPayload
from rtagent.model.metric import CpuUse
from rtagent.service.context import Measured
from rtagent.service.events import of_metrics
from rtagent.service.monitors import ANNOUNCE_INTERVAL, Monitors
from tests.support.hosts import NODE, NOON

CPU = "cpu.virt_driver"
USE = CpuUse(times={"user": 1, "kernel": 1, "idle": 2, "iowait": 0}, frequency=2000)


class Measuring:
    """The monitors of one node. :ivar written: to the node's record; :ivar error: instead."""

    def __init__(self, world):
        self.world, self.written, self.error, self.heard = world, [], None, []
        world.hypervisor.cpus = USE
        self.monitors = Monitors(
            world.context, world.hypervisor, world.tracker.snapshot, self.write, lambda: None
        )
        world.bus.subscribe(Measured, lambda event: self.heard.append(event.metrics))

    def write(self, node_uuid, epoch, metrics):
        if self.error is not None:
            raise self.error
        self.written.append((node_uuid, epoch, metrics))

    def turn(self):
        rest = self.monitors.turn()
        return rest, {each.name: each.value for each in self.monitors.metrics}


@pytest.fixture
def measuring(world):
    return Measuring(world)


def test_without_monitors_the_record_is_cleared_once(measuring):
    rest, metrics = measuring.turn()
    assert (rest.at_most, metrics) == (math.inf, {})
    measuring.turn()
    assert measuring.written == [(NODE.uuid, 1, ())]
    assert measuring.heard == []


def test_metrics_are_recorded_and_passed_on_at_the_report_interval(measuring):
    measuring.world.configure(compute_monitors=[CPU], report_interval=7)
    rest, metrics = measuring.turn()
    assert (rest.at_least, rest.at_most) == (7, 7)
    assert metrics["cpu.percent"] == 0.5
    assert measuring.written == [(NODE.uuid, 1, measuring.monitors.metrics)]
    assert measuring.heard == [measuring.monitors.metrics]
    measuring.world.configure(compute_monitors=[])  # and a reload
    rest, metrics = measuring.turn()
    assert (rest.at_most, metrics) == (math.inf, {})
    assert measuring.written[-1] == (NODE.uuid, 1, ())


def test_unavailable_database_gets_the_metrics_later(measuring):
    measuring.error = StoreUnavailable("down")
    rest, _ = measuring.turn()
    assert rest.at_most < math.inf
    measuring.error = None
    measuring.turn()
    assert measuring.written == [(NODE.uuid, 1, ())]


def test_missing_metrics_are_warned_of_once(measuring):
    measuring.world.configure(compute_monitors=[CPU])
    measuring.world.hypervisor.cpus = CpuUse(times=USE.times)
    for _ in range(3):
        _, metrics = measuring.turn()
    assert "cpu.frequency" not in metrics
    line = f"monitor {CPU} gives no cpu.frequency on this host"
    assert measuring.world.notes.logged.count(("warning", line)) == 1


def test_lost_hypervisor_gives_no_metrics_and_no_warning(measuring):
    measuring.world.configure(compute_monitors=[CPU])
    measuring.world.hypervisor.lost = True
    _, metrics = measuring.turn()
    assert metrics == {}
    assert measuring.world.notes.logged == []
    measuring.world.hypervisor.lost = False
    assert measuring.turn()[1]["cpu.frequency"] == 2000


def test_measurements_are_announced_once_a_minute(measuring):
    measuring.world.configure(compute_monitors=[CPU])
    for _ in range(3):
        measuring.turn()
        measuring.world.clock.advance(ANNOUNCE_INTERVAL / 2)
    assert len(measuring.heard) == 2
    event: Any = of_metrics(measuring.heard[0])
    assert event.type == "compute.metrics.update"
    assert isinstance(event.payload, MetricsPayload)
    metric = {"name": "cpu.frequency", "value": 2000.0, "source": "libvirt.LibvirtDriver"}
    at = NOON.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert event.payload.metrics[0] == {**metric, "timestamp": at}


def test_monitor_that_fails_does_not_stop_the_others(measuring):
    measuring.world.configure(compute_monitors=[CPU, "numa.membw"])
    measuring.world.hypervisor.cpus = None
    rest, metrics = measuring.turn()
    assert (rest.at_most, metrics) == (10, {})
    warned = [line for level, line in measuring.world.notes.logged if level == "warning"]
    assert any(f"monitor {CPU} fails: AttributeError" in line for line in warned)
    assert any("monitor numa.membw gives no" in line for line in warned)
