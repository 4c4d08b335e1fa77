"""The systemd unit says what the daemon relies on."""

import configparser
from pathlib import Path

from rtagent.cmd.rtagentd import EX_CONFIG
from rtagent.conf import default

ETC = Path(__file__).parents[3] / "etc" / "rtagent"


def service() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None)
    unit.read(ETC / "rtagent.service")
    return unit["Service"]


def test_systemd_waits_watches_and_leaves_alone_what_only_a_person_can_mend():
    unit = service()

    assert unit["Type"] == "notify"
    assert unit["TimeoutStartSec"] == "infinity"
    assert int(unit["WatchdogSec"]) > 0
    assert unit["RestartPreventExitStatus"] == str(EX_CONFIG)
    assert unit["ExecReload"].endswith("-HUP $MAINPID")


def test_what_it_writes_to_is_writable():
    defaults = {option.dest: option.default for option in default.OPTS}

    assert defaults["state_path"] == f"/var/lib/{service()['StateDirectory']}"
    assert defaults["lock_path"] in service()["ReadWritePaths"].split()
