"""The command that plants defects finds each of them, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.chaos.planted.defects import DEFECTS
from tests.servers.daemon import ROOT, wait_until

COMMAND = [sys.executable, "-m", "tests.chaos.planted"]
NAMES = [each.name for each in DEFECTS]
#: Seconds within which a search of ten minutes has ended.
ENDED = 900


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_defect_is_found(name: str, tmp_path: Path, long: bool):
    if not long:
        pytest.skip("takes minutes: --long")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [*COMMAND, name],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=ENDED,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{name}: found after" in ended.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_an_interrupted_search_leaves_nothing(number: signal.Signals, tmp_path: Path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*COMMAND, NAMES[0]], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    ) as search:
        try:
            wait_until(lambda: any(tmp_path.glob("placement-*/log")), 240)
            children = psutil.Process(search.pid).children(recursive=True)
            for _ in range(2):  # the second one does not interrupt the removal
                search.send_signal(number)
            _, error = search.communicate(timeout=400)
        finally:
            search.kill()
    assert (search.returncode, error) == (2, "interrupted\n")
    assert children
    assert not psutil.wait_procs(children, 120)[1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        ("lost-comit", "unknown: lost-comit; choose from double-grant, forgotten-release"),
        ("--minutes=0", "0 is not a number above 0"),
        ("--seed=0", "0 is below 1"),
    ],
    ids=["name", "minutes", "seed"],
)
def test_a_bad_argument_is_refused(argument: str, error: str):
    ended = subprocess.run(
        [*COMMAND, argument], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert error in ended.stderr
