"""What the machine says of itself, and the file that gives the node its uuid."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from rtagent.errors import IdentityError
from rtagent.model.node import Writer

MACHINE_ID = Path("/etc/machine-id")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def writer(state_path: str, machine_id: Path = MACHINE_ID, boot_id: Path = BOOT_ID) -> Writer:
    """This process, as the node's record shall name it.

    :raises IdentityError: the machine has no id.
    """
    return Writer(
        machine_id=_line(machine_id, "make one with systemd-machine-id-setup"),
        boot_id=_line(boot_id, "mount /proc"),
        state_path=os.path.realpath(state_path),
    )


def _line(path: Path, remedy: str) -> str:
    try:
        text = path.read_text().strip()
    except OSError as exc:
        raise IdentityError(f"{path} cannot be read ({exc.strerror}): {remedy}") from exc
    if not text:
        raise IdentityError(f"{path} is empty: {remedy}")
    return text


class ComputeId:
    """The node's uuid, in a file of the state directory: written once, never again.

    Placement's root provider, every claim and the node's record carry this uuid, so a file that is
    there and cannot be read stops the agent: a new uuid would orphan all of them.
    """

    def __init__(self, state_path: str) -> None:
        self.path = Path(state_path, "compute_id")

    def read(self) -> str | None:
        """The uuid, or None when there is no file.

        :raises IdentityError: it cannot be read, or it is not a uuid.
        """
        remedy = "write the node's uuid into it again (rtagent --offline node list shows it)"
        try:
            text = self.path.read_text().strip()
            return str(uuid.UUID(text))
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise IdentityError(f"{self.path} cannot be read ({exc.strerror}): {remedy}") from exc
        except ValueError as exc:  # UnicodeDecodeError included
            raise IdentityError(f"{self.path} does not hold a uuid: {remedy}") from exc

    def write(self, node_uuid: str) -> None:
        """Create the file with that uuid, whole and on the disk; nothing if it says so already.

        :raises IdentityError: it says something else, or it cannot be written.
        """
        if self.read() == node_uuid:
            return
        fresh = self.path.with_name(".compute_id.new")
        try:
            fresh.unlink(missing_ok=True)  # of a start that was cut off
            _write_synced(fresh, f"{node_uuid}\n")
            os.link(fresh, self.path)  # fails when there is one, unlike a rename
            _sync(self.path.parent)
        except FileExistsError as exc:
            raise IdentityError(f"{self.path} holds another uuid than {node_uuid}") from exc
        except OSError as exc:
            raise IdentityError(f"{self.path} cannot be written: {exc.strerror}") from exc
        finally:
            fresh.unlink(missing_ok=True)


def _write_synced(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
