"""The state report: when it is made, where it goes, and what one bad part does to it."""

import io
import os
import signal

import pytest
from oslo_config import cfg

from rtagent.conf import load
from rtagent.service.state_report import MAX_LINE, MAX_LINES, StateReport
from tests.servers.daemon import wait_until


@pytest.fixture
def handler():
    """Restore the handler of the signal."""
    before = signal.getsignal(signal.SIGUSR2)
    yield
    signal.signal(signal.SIGUSR2, before)


@pytest.fixture
def make(tmp_path, world):
    def made(**options: object) -> StateReport:
        file = tmp_path / "rtagent.conf"
        lines = [f"{name} = {value}\n" for name, value in options.items()]
        file.write_text("[oslo_reports]\n" + "".join(lines))
        conf = load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd")
        return StateReport("rtagentd", conf, world.clock, world.notes, tuple)

    return made


def test_bad_section_does_not_hide_the_others(make):
    report = make()
    report.add("Bad", lambda: [1 / 0])
    report.add("Good", lambda: ["fine"])
    text = report.text()
    assert "cannot be shown: ZeroDivisionError" in text
    assert "fine" in text


def test_sections_are_bounded_and_printable(make):
    report = make()
    report.add("Odd", lambda: ["x\n\x1b[2J\ud800" + "y" * 10_000] * (MAX_LINES + 7))
    lines = [line for line in report.text().splitlines() if line.startswith(r"x\n")]
    assert len(lines) == MAX_LINES
    assert all(line.isprintable() and len(line) < MAX_LINE + 50 for line in lines)
    assert "(7 more)" in report.text()


def test_values_of_options_are_printable(make):
    text = make(log_dir="/var/\x1b[2J\u202e").text()
    assert r"/var/\x1b[2J\u202e" in text
    assert all(line.isprintable() for line in text.replace("\t", " ").split("\n"))


def test_signal_writes_to_the_standard_error(make, capfd, handler):
    make().start()
    signal.raise_signal(signal.SIGUSR2)
    printed = io.StringIO()

    def complete() -> bool:
        printed.write(capfd.readouterr().err)
        return "Configuration" in printed.getvalue()

    wait_until(complete)
    assert "Guru Meditation" in printed.getvalue()


def test_signal_writes_a_file_into_the_directory(make, tmp_path, world, handler):
    make(log_dir=tmp_path).start()
    signal.raise_signal(signal.SIGUSR2)
    name = f"rtagentd_gurumeditation_{world.clock.now():%Y%m%d%H%M%S}"
    wait_until((tmp_path / name).exists)
    wait_until(lambda: world.notes.logged)
    assert "Configuration" in (tmp_path / name).read_text()
    assert world.notes.logged == [("info", f"the state report is in {tmp_path / name}")]


def test_directory_that_is_gone_is_logged(make, tmp_path, world, handler):
    make(log_dir=tmp_path / "gone").start()
    signal.raise_signal(signal.SIGUSR2)
    wait_until(lambda: world.notes.logged)
    ((level, line),) = world.notes.logged
    assert level == "error"
    assert "the state report cannot be written" in line


def test_file_that_changes_requests_a_report_instead_of_the_signal(make, tmp_path, world, handler):
    watched = tmp_path / "ask"
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    make(log_dir=tmp_path, file_event_handler=watched, file_event_handler_interval=0).start()
    signal.raise_signal(signal.SIGUSR2)
    watched.touch()  # it appears
    wait_until(lambda: len(world.notes.logged) == 1)
    os.utime(watched, (1, 1))
    wait_until(lambda: len(world.notes.logged) == 2)
