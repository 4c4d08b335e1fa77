"""The command that plants defects finds each of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.planted.defects import DEFECTS
from tests.servers.daemon import ROOT

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
