"""Play a demonstration."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def play(
    directory: Path, *arguments: str, served: Callable[[str], object] | None = None
) -> tuple[str, list[str]]:
    """Play a demonstration; return what it prints, and its chapters.

    :param served: called with what was printed while everything keeps running.
    """
    environment = {**os.environ, "TMPDIR": str(directory), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "demo", *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        printed = ""
        for line in process.stdout:
            printed += line
            if served is not None and "Press Ctrl-C" in line:
                try:
                    served(printed)
                finally:
                    process.terminate()
    assert process.returncode == 0, printed
    assert not [path for path in directory.iterdir() if path.name.startswith("rtagent-demo")]
    return printed, [line for line in printed.splitlines() if line.endswith("─")]
