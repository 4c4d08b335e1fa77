"""Commands in a root file system that is being built."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.places import LAB

# A separate mount namespace leaves nothing mounted. The machine's certificates are mounted because
# downloads must trust the same authorities, for instance that of a proxy.
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
    """Run a command on this machine, with its output in the log.

    :raises BuildFailed: it ended with another code than 0.
    """
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
        tail = "\n".join(LOG.read_text(errors="replace").splitlines()[-20:])
        raise BuildFailed(f"{' '.join(command)} ended with {done.returncode}:\n{tail}")


def inside(root: Path, *command: str) -> None:
    """Run a command in that root file system.

    :raises BuildFailed: it ended with another code than 0.
    """
    run("unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, str(root), *command)


def write(root: Path, files: Sequence[tuple[str, str]]) -> None:
    """Write files. :param files: path in that root file system, and contents."""
    for name, contents in files:
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(contents)
