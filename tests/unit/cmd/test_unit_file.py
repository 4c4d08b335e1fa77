"""The systemd unit says what the daemon relies on."""

import configparser
from pathlib import Path

import pytest

from rtagent.cmd.daemon import EX_CONFIG
from rtagent.conf.compute import Compute
from rtagent.conf.default import Default
from rtagent.conf.libraries import LIBRARIES, listed
from rtagent.virt import power

ETC = Path(__file__).parents[3] / "etc" / "rtagent"
UNITS = ("rtagent.service", "rtagent-scheduler.service")


def service(file: str = "rtagent.service") -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None, strict=False)  # a key may be repeated
    unit.read(ETC / file)
    return unit["Service"]


@pytest.mark.parametrize("file", UNITS)
def test_the_unit_notifies_has_a_watchdog_and_does_not_restart_after_a_config_error(file):
    unit = service(file)

    assert unit["Type"] == "notify"
    assert unit["TimeoutStartSec"] == "infinity"
    assert int(unit["WatchdogSec"]) > 0
    assert unit["RestartPreventExitStatus"] == str(EX_CONFIG)
    assert unit["ExecReload"].endswith("-HUP $MAINPID")


@pytest.mark.parametrize("file", UNITS)
def test_the_unit_bounds_memory_and_threads(file):
    pools = {option.dest: option.default for _, options in listed(LIBRARIES) for option in options}

    assert service(file)["MemoryMax"].endswith("G")
    threads = pools["executor_thread_pool_size"] + pools["rpc_conn_pool_size"]
    assert int(service(file)["TasksMax"]) > 2 * threads


def test_the_scheduler_is_confined_as_the_agent_is():
    agent, scheduler = service(), service("rtagent-scheduler.service")
    start = list(agent).index("capabilityboundingset")
    confinement = list(agent)[start:]
    assert len(confinement) > 20
    own, theirs = ({name: unit[name] for name in confinement} for unit in (agent, scheduler))
    assert own == theirs
    assert scheduler["User"] == agent["User"]
    assert scheduler["ExecStart"] == "/usr/bin/rtagent-scheduler"
    assert "SupplementaryGroups" not in scheduler  # it does not connect to libvirt


def test_the_unit_makes_the_daemons_directories_writable():
    for file in UNITS:
        assert Default().state_path == f"/var/lib/{service(file)['StateDirectory']}"
    assert Default().lock_path == f"/run/{service()['RuntimeDirectory']}"
    assert service()["RuntimeDirectoryPreserve"] == "yes"


def made_directories() -> dict[str, list[str]]:
    """Mode, user and group of the directories that the package makes, by path."""
    lines = (ETC / "rtagent.tmpfiles").read_text().splitlines()
    return {line.split()[1]: line.split()[2:5] for line in lines if line.startswith("d ")}


def test_only_the_agent_can_write_to_its_directories():
    for directory in (Default().state_path, Default().lock_path):
        assert made_directories()[directory] == ["0750", "rtagent", "rtagent"]


def test_only_root_can_write_provider_files():
    location = Compute().provider_config_location
    assert made_directories()[location.rstrip("/")] == ["0750", "root", "rtagent"]


def test_only_the_drop_in_makes_cpu_power_files_writable():
    assert str(power.SYSFS) not in service().get("ReadWritePaths", "")
    assert service("rtagent-cpu-power.conf")["ReadWritePaths"] == str(power.SYSFS)
