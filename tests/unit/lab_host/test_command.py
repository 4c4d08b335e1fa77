"""What `tools/lab` answers to what it cannot do."""

import subprocess
import sys

import pytest

from lab.places import ROOT
from lab.profile import PROFILES


def lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["boot", "--profile", "toaster"], "invalid choice: 'toaster'"),
        (["boot", "--hosts", "0"], "'0' is not a number of hosts"),
        (["boot", "--hosts", "two"], "'two' is not a number of hosts"),
        (["run", "lab1"], "required: COMMAND"),
    ],
)
def test_invalid_command_prints_the_usage(arguments, message):
    done = lab(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: tools/lab") and message in done.stderr
    assert done.stdout == ""


def test_every_profile_is_named_when_one_is_unknown():
    message = lab("boot", "--profile", "toaster").stderr
    assert all(name in message for name in PROFILES)


def test_a_missing_host_is_reported_in_one_line():
    done = lab("run", "nowhere", "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tools/lab: there is no host nowhere; ")
    assert done.stderr.count("\n") == 1
