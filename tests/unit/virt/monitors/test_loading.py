"""Monitors by name."""

import pytest

from rtagent.errors import ConfigError
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.virt.monitors import check, load
from rtagent.virt.monitors.cpu import VirtDriverMonitor


def test_monitors_are_loaded_in_the_order_of_their_names():
    monitors = load(["numa.membw", "cpu.virt_driver", "numa.membw"], FakeHypervisor())
    assert list(monitors) == ["numa.membw", "cpu.virt_driver"]
    assert isinstance(monitors["cpu.virt_driver"], VirtDriverMonitor)


@pytest.mark.parametrize("names", [["cpu.other"], ["virt_driver"], ["cpu.virt_driver", ""]])
def test_unknown_monitor_is_refused_with_the_known_ones(names):
    with pytest.raises(ConfigError) as caught:
        check(names)
    (unknown,) = set(names) - {"cpu.virt_driver"}
    assert str(caught.value) == (
        f"[DEFAULT] compute_monitors = {unknown}: is not installed. Installed are:"
        " cpu.virt_driver, numa.membw"
    )


def test_two_monitors_of_one_type_are_refused():
    with pytest.raises(ConfigError, match="two monitors of one type"):
        check(["cpu.virt_driver", "cpu.other"])
