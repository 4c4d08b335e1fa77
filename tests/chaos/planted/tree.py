"""Tree: a copy of the source with a defect, in a temporary directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.chaos.planted.defect import Defect, NotPlanted

#: The root of the source that is copied.
ROOT = Path(__file__).resolve().parents[3]
#: What a run needs of it.
PARTS = ("rtagent", "tests", "lab", "migrations", "etc", "tools", "setup.cfg", "pyproject.toml")


def plant(defect: Defect, directory: Path) -> None:
    """Copy the tree into a directory, and plant the defect there.

    :raises NotPlanted: the source is not what the defect was written for, or the copy would not be
        used.
    """
    for part in PARTS:
        source, target = ROOT / part, directory / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.is_file():
            shutil.copy2(source, target)
    for replacement in defect.replacements:
        replacement.apply(directory)
    command = [sys.executable, "-c", "import rtagent; print(rtagent.__file__)"]
    found = subprocess.run(
        command,
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        text=True,
        check=True,
    )
    if not Path(found.stdout.strip()).is_relative_to(directory.resolve()):
        raise NotPlanted(
            f"{found.stdout.strip()} would be used in place of the copy in {directory}"
        )


def environment(directory: Path) -> Mapping[str, str]:
    """Return the variables with which programs use the copy."""
    return {**os.environ, "PYTHONPATH": str(directory)}
