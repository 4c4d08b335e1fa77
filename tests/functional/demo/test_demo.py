"""The demonstration plays to its end, and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_story(tmp_path):
    played = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "demo"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    chapters = [line for line in played.stdout.splitlines() if line.endswith("─")]
    assert len(chapters) == 10
    assert "hypervisor-1.example" in played.stdout
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("rtagent-demo")]
