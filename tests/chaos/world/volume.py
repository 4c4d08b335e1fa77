"""Volumes: small file systems of their own, which can be filled up."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

# Waits for the end of its standard input, which comes when the process with the other end dies.
_REAPER = 'read -r _; umount --lazy -- "$1"'


class Volume:
    """A file system in memory, mounted on an empty directory. It needs the rights of root."""

    def __init__(self, directory: Path, megabytes: int) -> None:
        """:raises subprocess.CalledProcessError: nothing can be mounted here."""
        self.directory = directory
        self._filler = directory / ".filler"
        options = f"size={megabytes}m,mode=0755"
        command = ["mount", "-t", "tmpfs", "-o", options, "chaos", str(directory)]
        subprocess.run(command, check=True, capture_output=True)
        self._reaper = subprocess.Popen(
            ["sh", "-c", _REAPER, "reaper", str(directory)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def fill(self) -> None:
        """Leave no free space."""
        with self._filler.open("ab") as filler:
            while free := shutil.disk_usage(self.directory).free:
                with contextlib.suppress(OSError):  # another writer was faster
                    end = filler.seek(0, os.SEEK_END)
                    os.posix_fallocate(filler.fileno(), end, free)

    def clear(self) -> None:
        """End a `fill`."""
        self._filler.unlink(missing_ok=True)

    def close(self, *, keep: bool = False) -> None:
        """Unmount it. What it has is gone, or copied to the directory on which it was mounted."""
        if not keep:
            self._reaper.communicate(timeout=30)
            return
        self.clear()
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(self.directory, copy, dirs_exist_ok=True)
            self._reaper.communicate(timeout=30)
            shutil.copytree(copy, self.directory, dirs_exist_ok=True)


def mountable() -> bool:
    """Return whether this process may mount file systems."""
    probe = ["unshare", "--mount", "true"]
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0
