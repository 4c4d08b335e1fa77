"""The demonstration plays to its end and leaves no files behind."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_demo_succeeds(tmp_path):
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "demo"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    chapters = [line for line in finished.stdout.splitlines() if line.endswith("─")]
    assert len(chapters) == 13
    assert "hypervisor-1.example" in finished.stdout
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("rtagent-demo")]
