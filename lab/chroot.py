"""Commands in a root file system that is being made."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.places import LAB

# In a mount namespace of its own, so that nothing is left mounted. The machine's certificates,
# because whom it trusts its downloads trust.
_ENTER = """
set -e
mount -t proc proc "$0/proc"
mount --bind /dev "$0/dev"
mkdir -p "$0/etc/ssl/certs"
mount --bind /etc/ssl/certs "$0/etc/ssl/certs"
exec chroot "$0" "$@"
"""

LOG = LAB / "build.log"


class BuildFailed(Exception):
    """A command of a build; the message ends with the last lines of the log."""


def run(*command: str) -> None:
    """A command on this machine, what it says in the log. :raises BuildFailed:"""
    clean = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    with LOG.open("a") as log:
        done = subprocess.run(
            command,
            env={**os.environ, **clean},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        told = "\n".join(LOG.read_text(errors="replace").splitlines()[-20:])
        raise BuildFailed(f"{' '.join(command)} ended with {done.returncode}:\n{told}")


def inside(root: Path, *command: str) -> None:
    """A command in that root file system. :raises BuildFailed:"""
    run("unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, str(root), *command)


def write(root: Path, files: Sequence[tuple[str, str]]) -> None:
    """Files with these contents, by their paths in that root file system."""
    for name, contents in files:
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(contents)
