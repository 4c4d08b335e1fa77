"""Orphans: allocations that an older copy left behind in Placement, deleted as by an operator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def delete_orphans(config_file: Path) -> frozenset[str]:
    """Delete the allocations on a host that belong to neither a claim nor a guest.

    A claim that was lost with an older copy of the database is unknown to its agent, which leaves
    the allocations of unknown consumers to the operator.

    :returns: the consumers whose guests are still here. They keep their allocations.
    :raises OSError: a command failed.
    """
    found = {row["consumer"] for row in _run(config_file, "placement", "orphans")}
    guests = {row["domain_uuid"] for row in _run(config_file, "orphan", "list")}
    for consumer in sorted(found - guests):
        _run(config_file, "placement", "orphans", "delete", consumer)
    return frozenset(found & guests)


def _run(config_file: Path, *arguments: str) -> Any:
    command = [sys.executable, "-m", "rtagent.cmd.rtagent", "--config-file", str(config_file)]
    command += [*arguments, "-f", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if ended.returncode:
        raise OSError(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr}")
    return json.loads(ended.stdout or "[]")
