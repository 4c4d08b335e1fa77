"""Directories that must be safe from other users of this machine, and files that outlive it."""

import os
import stat
from pathlib import Path

from rtagent.errors import IdentityError

#: The superuser. It can write everywhere anyway.
_ROOT = 0


def weakness(directory: Path) -> str:
    """Return why other users can replace files in the directory, with the remedy; or "".

    Write access of a group counts as intended. The sticky bit does not help: it protects files that
    exist, but anybody can create a file that does not exist yet.

    :raises OSError: the directory does not exist, or cannot be read.
    """
    status = os.stat(directory)
    if status.st_uid not in (_ROOT, os.geteuid()):
        return (
            f"{directory} belongs to user {status.st_uid}, and this process runs as user"
            f" {os.geteuid()}: run it as that user, or give the directory to this one (chown)"
        )
    if status.st_mode & stat.S_IWOTH:
        return f"every user can write to {directory}: remove that permission (chmod o-w)"
    return ""


def sync_directory(directory: Path) -> None:
    """Write the names of a directory's files to the disk. :raises OSError:"""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file atomically. The content is durable when this returns. :raises OSError:"""
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_directory(path.parent)


def open_safe_directory(directory: Path, missing: str) -> int:
    """Return a descriptor of a directory in which other users cannot replace files.

    :param missing: the remedy if the directory does not exist.
    :raises IdentityError: other users can, or the directory does not exist.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        why = weakness(directory)
    except FileNotFoundError as exc:
        raise IdentityError(f"{directory} does not exist: {missing}") from exc
    except OSError as exc:
        raise IdentityError(f"{directory} cannot be used: {exc.strerror}") from exc
    if why:
        os.close(descriptor)
        raise IdentityError(why)
    return descriptor
