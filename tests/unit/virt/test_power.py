"""Each strategy, on a directory tree like the kernel's."""

import os
from pathlib import Path

import pytest

from rtagent.errors import CpuPowerFailed, HypervisorUnavailable
from rtagent.ports import CpuPower
from rtagent.virt.power import strategy
from tests.servers.daemon import wait_until


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """Four CPUs, all of them online; the kernel offers no switch for CPU 0."""
    for cpu in range(4):
        here = tmp_path / f"cpu{cpu}"
        (here / "cpufreq").mkdir(parents=True)
        (here / "cpufreq" / "scaling_governor").write_text("schedutil\n")
        if cpu:
            (here / "online").write_text("1\n")
    return tmp_path


def made(name: str, sysfs: Path) -> CpuPower:
    return strategy(name, "powersave", "performance", sysfs)


def said(sysfs: Path, file: str) -> dict[int, str]:
    return {
        cpu: (sysfs / f"cpu{cpu}" / file).read_text().strip()
        for cpu in range(4)
        if (sysfs / f"cpu{cpu}" / file).exists()
    }


def test_cpu_state_switches_off_and_on(sysfs):
    power = made("cpu_state", sysfs)
    assert power.switches_off

    power.down({1, 2})
    assert said(sysfs, "online") == {1: "0", 2: "0", 3: "1"}
    power.up({2, 3})
    assert said(sysfs, "online") == {1: "0", 2: "1", 3: "1"}
    assert set(said(sysfs, "cpufreq/scaling_governor").values()) == {"schedutil"}


def test_cpu_state_leaves_cpu_0_alone(sysfs):
    power = made("cpu_state", sysfs)
    power.down({0, 1})
    power.up({0})
    assert said(sysfs, "online") == {1: "0", 2: "1", 3: "1"}


def test_governor_chooses_one_or_the_other(sysfs):
    power = made("governor", sysfs)
    assert not power.switches_off

    power.down({0, 1})
    power.up({1, 2})

    wanted = {0: "powersave", 1: "performance", 2: "performance", 3: "schedutil"}
    assert said(sysfs, "cpufreq/scaling_governor") == wanted
    assert set(said(sysfs, "online").values()) == {"1"}


def test_a_missing_cpu_is_named(sysfs):
    with pytest.raises(CpuPowerFailed) as caught:
        made("cpu_state", sysfs).up({9, 10})
    assert "CPU 9" in str(caught.value)
    assert "No such file" in str(caught.value)
    assert isinstance(caught.value, HypervisorUnavailable)
    assert caught.value.retriable


def test_the_other_cpus_are_set_when_one_fails(sysfs):
    (sysfs / "cpu1" / "online").unlink()
    with pytest.raises(CpuPowerFailed):
        made("cpu_state", sysfs).down({1, 2})
    assert said(sysfs, "online") == {2: "0", 3: "1"}


def test_a_cpu_that_hangs_fails_in_time_until_it_answers(sysfs):
    """A pipe without a reader hangs like a file of the kernel's."""
    pipe = sysfs / "cpu1" / "online"
    pipe.unlink()
    os.mkfifo(pipe)
    power = strategy("cpu_state", "powersave", "performance", sysfs, timeout=2.0)

    with pytest.raises(CpuPowerFailed, match=r"CPU 1: .* no answer within 2 s"):
        power.down({1, 2})
    with pytest.raises(CpuPowerFailed, match=r"CPU 1: .* has not returned yet"):
        power.up({1, 2})
    power.up({2})

    answer(pipe)
    wait_until(lambda: succeeds(power, 1))
    assert said(sysfs, "online")[1] == "1"


def answer(pipe: Path) -> None:
    """Put a file in the place of a pipe, and let the thread that hangs at the pipe go on."""
    hung = pipe.rename(pipe.with_name("hung"))
    pipe.write_text("\n")
    os.close(os.open(hung, os.O_RDWR | os.O_NONBLOCK))


def succeeds(power: CpuPower, cpu: int) -> bool:
    try:
        power.up({cpu})
    except CpuPowerFailed:
        return False
    return True
