"""Locks on files, which a process keeps until it ends; directories that must be safe from other
users of this machine, and files that outlive it.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rtagent.errors import IdentityError
from rtagent.ports import HostIdentity, Reporter

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


def write_new(path: Path, text: str, mode: int) -> None:
    """Create a file. The content is durable when this returns.

    :raises OSError: no file is made; `FileExistsError`: it exists.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink()
        raise


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


#: A symbolic link is refused. A pipe or a device, which is refused later, does not block.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Only the owner may open the file, because a user who can read it can lock it.
_MODE = 0o600


class FileLock:
    """Excludes a second process. Linux releases the lock when the process ends for any reason.

    The file is changed only after this process has the lock and has checked that it is a file of
    its own.

    :param remedy: the remedy for the operator of the second process.
    :param missing: the remedy if the directory does not exist.
    :param program: the name of the program that takes this lock.
    """

    def __init__(self, path: Path, remedy: str, missing: str, program: str = "rtagentd") -> None:
        self.path, self._remedy, self._missing = path, remedy, missing
        self._program = program
        self._descriptor: int | None = None

    def take(self) -> None:
        """Lock the file and write this process's id into it.

        :raises IdentityError: another process has the lock, or the file cannot be used, or other
            users could replace it.
        """
        directory = open_safe_directory(self.path.parent, self._missing)
        try:
            self._descriptor = self._lock(directory)
        except OSError as exc:
            raise IdentityError(f"{self.path} cannot be locked: {exc.strerror}") from exc
        finally:
            os.close(directory)

    @property
    def held(self) -> bool:
        """Whether this object has the lock."""
        return self._descriptor is not None

    def drop(self) -> None:
        """Release the lock, if it is held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _lock(self, directory: int) -> int:
        """Return the descriptor of the locked file."""
        descriptor = os.open(self.path.name, _FLAGS, _MODE, dir_fd=directory)
        try:
            self._check(os.fstat(descriptor))
            self._exclude(descriptor)
            if not os.path.samestat(os.fstat(descriptor), self._current(directory)):
                raise IdentityError(f"{self.path} was replaced while it was locked: start again")
            _sign(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise IdentityError(f"{self.path} is not a regular file: remove it")
        if status.st_uid not in (0, os.geteuid()):
            raise IdentityError(
                f"{self.path} belongs to user {status.st_uid}: remove it, if no agent of that user"
                " runs"
            )

    def _exclude(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            holder = os.pread(descriptor, 20, 0).strip()
            who = holder.decode() if holder.isdigit() else "(unknown)"
            raise IdentityError(
                f"{self.path} is locked by process {who}: another {self._program} runs."
                f" {self._remedy}"
            ) from exc

    def _current(self, directory: int) -> os.stat_result:
        return os.stat(self.path.name, dir_fd=directory, follow_symlinks=False)


def _sign(descriptor: int) -> None:
    """Write the id of this process into the locked file, for the message of a second agent.

    The lock is valid without it, on a full file system, for instance.
    """
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, _MODE)
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


@contextlib.contextmanager
def without_agent(state_path: str) -> Iterator[None]:
    """Exclude the agent of a state directory for the length of a block.

    A file that is missing is not created: it has to belong to the agent's user.

    :raises IdentityError: the agent runs, or the file cannot be locked.
    """
    path = state_directory_lock(state_path).path
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield  # no agent has run here
        return
    except OSError as exc:
        raise IdentityError(f"{path} cannot be locked: {exc.strerror}") from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as exc:
        raise IdentityError(f"rtagentd runs: stop it first ({path} is locked)") from exc
    finally:
        os.close(descriptor)


def state_directory_lock(state_path: str) -> FileLock:
    """Return the lock that allows one agent for each state directory."""
    return FileLock(
        Path(state_path, "lock"),
        "Stop that one, or give this one a state_path of its own",
        "create it",
    )


class HypervisorLock:
    """Allows one agent for each hypervisor, and one hypervisor for each agent.

    On a machine whose firmware has no uuid, libvirt generates a host uuid at each start. So there
    is one lock for each uuid that the host has had while this process runs.
    """

    def __init__(self, lock_path: str, reporter: Reporter) -> None:
        """:param lock_path: a directory that all agents of this machine share."""
        self._lock_path, self._reporter = lock_path, reporter.named(__name__)
        self._hostname: str | None = None
        self._locks: dict[str, FileLock] = {}

    def take(self, found: HostIdentity) -> None:
        """Lock the connected hypervisor. Call this after each connection.

        :raises IdentityError: another agent has the lock, or this is a different machine than
            before.
        """
        if self._hostname not in (None, found.hostname):
            raise IdentityError(
                f"the hypervisor was {self._hostname} and is {found.hostname} now: if that is"
                " intended, start again"
            )
        if found.host_uuid and found.host_uuid not in self._locks:
            self._lock(found.host_uuid)
        self._hostname = found.hostname

    def drop(self) -> None:
        """Release the locks."""
        while self._locks:
            self._locks.popitem()[1].drop()

    def _lock(self, host_uuid: str) -> None:
        lock = FileLock(
            Path(self._lock_path, f"rtagent-{host_uuid}.lock"),
            f"Stop that one: the hypervisor {host_uuid} has an agent already",
            "systemd-tmpfiles --create makes the default, /run/rtagent; or set [DEFAULT] lock_path"
            " to a directory that all agents of this machine share",
        )
        lock.take()
        if self._locks:
            self._reporter.log(
                "warning",
                f"libvirt reports another host uuid than before, {host_uuid}: set host_uuid in"
                " libvirtd.conf, so that it stays the same",
            )
        self._locks[host_uuid] = lock
