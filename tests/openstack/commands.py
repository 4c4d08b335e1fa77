"""Commands of ``tools/openstack``, because its libraries are in another environment."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TOOL = Path(__file__).resolve().parents[2] / "tools/openstack"


def tool(*arguments: str, code: int = 0) -> str:
    """Return what a command prints. :param code: its exit code."""
    done = subprocess.run(
        [str(_TOOL), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    shown = f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.returncode == code, shown
    return done.stdout


def openstack(*arguments: str) -> str:
    """Return the output of a command of openstackclient."""
    return tool("run", "controller", "openstack", *arguments)


def rtagent(host: str, *arguments: str) -> Any:
    """Return the document that a command prints about a host."""
    return json.loads(tool("run", host, "rtagent", *arguments, "-f", "json"))


def wait_until(holds: Callable[[], bool], patience: float = 120.0) -> None:
    """Fail if it does not hold within some seconds."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(1)


def sql(statement: str) -> None:
    """Change something in the controller's database."""
    tool("run", "controller", "mariadb", "--no-defaults", "-S", "/run/mysqld.sock", "-e", statement)
