"""The release before this one, installed beside this tree.

``tests/data/rtagent-0.2.0.tar.xz`` is its wheel, unpacked. To take another release::

    python -m pip wheel --no-deps --wheel-dir /tmp/wheel CLONE
    python -m zipfile -e /tmp/wheel/*.whl /tmp/tree
    tar -C /tmp/tree --owner=0 --group=0 -cJf tests/data/rtagent-VERSION.tar.xz .
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data"


class PreviousRelease:
    """Programs of the previous release, with the libraries of this one's environment.

    :ivar version: of the release. :ivar schema: the version of the schema that it writes.
    :ivar rpc: the version of the agent's API that it serves.
    """

    version, schema, rpc = "0.2.0", "0014", "1.9"

    def __init__(self, directory: Path) -> None:
        """Unpack it into an empty directory."""
        shutil.unpack_archive(DATA / f"rtagent-{self.version}.tar.xz", directory)
        self._directory = directory

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables with which the interpreter of the tests imports this release."""
        return {"PYTHONPATH": str(self._directory)}

    def rtagent(self, config_file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the release."""
        main = "import sys, rtagent.cmd.rtagent as command; sys.exit(command.main())"
        return self._python("-c", main, "--config-file", str(config_file), *arguments)

    def run(self, file: Path, *arguments: str) -> None:
        """Have the release run a file of this tree."""
        done = self._python("-", *arguments, source=file.read_text())
        assert done.returncode == 0, done.stderr

    def _python(self, *arguments: str, source: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "ignore", *arguments],
            cwd=self._directory,
            env={**os.environ, **self.environment},
            input=source,
            capture_output=True,
            text=True,
            check=False,
        )
