"""Orphans: allocations that an older copy left behind in Placement, deleted as by an operator."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def delete_orphans(
    config_file: Path, end_guest: Callable[[str], None] = lambda consumer: None
) -> list[str]:
    """Delete the allocations on a host that belong to no claim. Return their consumers.

    A claim that was lost with an older copy of the database is unknown to its agent, which leaves
    the allocations of unknown consumers to the operator.

    :param end_guest: ends the guest of a consumer, if it still runs: until the agent has seen that
        it is gone, its allocations cannot be deleted.
    :raises OSError: a command failed.
    """
    found = sorted({row["consumer"] for row in _orphans(config_file)})
    for consumer in found:
        end_guest(consumer)
    for consumer in found:
        _orphans(config_file, "delete", consumer)
    return found


def _orphans(config_file: Path, *arguments: str) -> Any:
    program = "import sys; from rtagent.cmd.rtagent import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "--config-file", str(config_file)]
    command += ["placement", "orphans", *arguments, "-f", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if ended.returncode:
        raise OSError(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr}")
    return json.loads(ended.stdout)
