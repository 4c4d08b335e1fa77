"""``rtagent doctor``: what it says about keys."""

import argparse
import logging
from datetime import timedelta
from pathlib import Path

import pytest

from rtagent.cmd.client import Client
from rtagent.cmd.doctor import keys
from rtagent.cmd.upgrade import CheckFinding, Checks
from tests.support.trust import DAY, KeyFiles


def found(directory: Path, options: dict[str, object]) -> CheckFinding:
    config = directory / "rtagent.conf"
    lines = "".join(f"{name} = {value}\n" for name, value in options.items())
    config.write_text(f"[rpc]\n{lines}")
    named = argparse.Namespace(config_file=[str(config)], config_dir=[])
    return keys(Checks(Client(named, logging.getLogger("test"))))


@pytest.mark.parametrize(
    "days, result, details",
    [
        (31, "pass", "the key nova is valid until"),
        (29, "warn", "the key nova is valid until"),
        (-1, "fail", "the key nova expired at"),
    ],
)
def test_end_of_the_own_key_is_announced(tmp_path: Path, days: int, result: str, details: str):
    files = KeyFiles(tmp_path)
    files.add("nova", "conductor", valid=(-2 * DAY, timedelta(days=days, hours=1)))
    finding = found(tmp_path, files.options("nova"))
    assert (finding.result, finding.details.startswith(details)) == (result, True)
    assert ("rtagent key generate" in finding.remedy) == (result != "pass")


def test_missing_and_wrong_files_are_found(tmp_path: Path):
    assert found(tmp_path, {}) == ("pass", "calls are not signed", "")
    files = KeyFiles(tmp_path)
    files.add("nova", "conductor")
    files.revoke("nova")
    finding = found(tmp_path, files.options("nova"))
    assert finding.result == "warn"
    assert "keys_file of this machine does not have the key nova" in finding.details
    files.file("nova").unlink()
    finding = found(tmp_path, files.options("nova"))
    assert (finding.result, "cannot be read" in finding.details) == ("fail", True)
