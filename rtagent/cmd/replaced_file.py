"""A file that a command replaces as a whole, so that a daemon never reads a part of it."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rtagent.errors import ConfigError
from rtagent.identity.locks import sync_directory

#: The daemon's user reads the file by its group.
MODE = 0o640


class OptionNotSet(ConfigError):
    """The option that names the file is not set."""

    template = "[{group}] {option} is not set: {rule}"


def named_file(path: str | None, group: str, option: str) -> Path:
    """Return the path that an option has. :raises OptionNotSet:"""
    if not path:
        what = option.removesuffix("_file")
        rule = f"name the file for the {what}, for example {option} = /etc/rtagent/{what}"
        raise OptionNotSet(group=group, option=option, value="", rule=rule)
    return Path(path)


def replace_file(path: Path, text: str) -> None:
    """Write a file. Mode, owner and group stay, whatever the umask of the user: a daemon that
    cannot read the file would use the one that it knows. A link stays, too: the file that it names
    is replaced, which others may read by another name. A new file gets the group of its directory,
    if the user may do that. The change is durable when this returns.

    :raises OSError: nothing is changed.
    """
    path = Path(os.path.realpath(path))
    fresh = path.with_name(f".{path.name}.{os.getpid():x}")
    try:
        before = path.stat() if path.exists() else None
        mode = MODE if before is None else stat.S_IMODE(before.st_mode)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            if before is not None:
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            else:
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), -1, path.parent.stat().st_gid)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


@contextlib.contextmanager
def changing(path: Path, group: str, option: str) -> Iterator[None]:
    """Let no other command change the files of a file's directory.

    :param option: the option that names the file.
    :raises ConfigError: a file cannot be written.
    """
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)
    except OSError as exc:
        rule = f"cannot be written: {exc.strerror}"
        raise ConfigError(group=group, option=option, value=str(path), rule=rule) from exc
