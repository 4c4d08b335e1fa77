"""What `tools/bench` answers to what it cannot measure."""

import subprocess
import sys
from pathlib import Path


def test_an_unknown_figure_is_named():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "claim_rpc"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "claim_rpc is not a figure; see tools/bench --list" in done.stderr
