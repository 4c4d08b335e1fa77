"""rtagent doctor, without a daemon; `test_agent` has the one with a daemon."""

from pathlib import Path

import pytest

from rtagent.cmd.doctor import CHECKS
from tests.functional.cli.shell import Outcome, run

TITLES = [title for title, _ in CHECKS]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A configuration with an embedded database, a simulated host, and no daemon."""
    host = run("host", "simulate", str(tmp_path / "host.xml"), "-f", "json").json
    file = tmp_path / "rtagent.conf"
    file.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\ntransport_url = fake://\n"
        f"[libvirt]\nconnection_uri = {host['uri']}\n[api]\naddress = {tmp_path}/none.sock\n"
    )
    return file


def results(outcome: Outcome) -> dict[str, dict[str, str]]:
    found = {each["check"]: each for each in outcome.json}
    assert list(found) == TITLES
    assert all(each["remedy"] for each in found.values() if each["result"] != "pass")
    return found


def test_a_host_whose_daemon_is_down_has_warnings(conf: Path) -> None:
    assert run("--config-file", str(conf), "db", "sync").code == 0
    outcome = run("--config-file", str(conf), "doctor", "-f", "json")
    found = results(outcome)
    failed = {title for title, each in found.items() if each["result"] == "fail"}
    assert failed <= {"state directory"}, found  # a small file system
    assert outcome.code == (1 if failed else 0)
    assert found["agent"]["remedy"].startswith("systemctl start rtagent")
    assert found["message broker"]["result"] == "warn"
    assert found["database"]["result"] == found["clock"]["result"] == "pass"
    assert (found["libvirt"]["result"], found["lock"]["details"]) == ("pass", "no process")
    table = run("--config-file", str(conf), "doctor")
    assert all(title in table.out for title in TITLES)


def test_a_host_before_its_first_start_fails_nothing(conf: Path) -> None:
    found = results(run("--config-file", str(conf), "doctor", "-f", "json"))
    failed = {title for title, each in found.items() if each["result"] == "fail"}
    assert failed <= {"state directory"}, found
    assert "rtagentd creates it" in found["database"]["details"]


def test_every_check_is_made_although_others_fail(conf: Path) -> None:
    text = conf.read_text().replace("fake://", "rabbit://127.0.0.1:1")
    text = (
        text.replace("test://", "test:///none") + "[database]\nconnection = oracle://a:s3cret@b\n"
    )
    conf.write_text(text)
    outcome = run("--config-file", str(conf), "doctor", "-f", "json")
    assert outcome.code == 1
    found = results(outcome)
    failed = {title for title, each in found.items() if each["result"] == "fail"}
    assert {"configuration", "message broker"} <= failed
    assert "s3cret" not in outcome.out + outcome.err
