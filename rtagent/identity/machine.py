"""The ids of the machine, and the file that contains the node's uuid."""

import os
import uuid
from pathlib import Path

from rtagent.errors import IdentityError
from rtagent.identity.locks import sync_directory, write_new
from rtagent.model.node import Writer

MACHINE_ID = Path("/etc/machine-id")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: The longest id that a database stores.
MAX_ID = 255


def writer(state_path: str, machine_id: Path = MACHINE_ID, boot_id: Path = BOOT_ID) -> Writer:
    """Return the identity of this process for the node's record.

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
    except UnicodeDecodeError as exc:
        raise IdentityError(f"{path} is not text: {remedy}") from exc
    if not text or len(text) > MAX_ID:
        what = "is empty" if not text else f"has more than {MAX_ID} characters"
        raise IdentityError(f"{path} {what}: {remedy}")
    return text


class ComputeId:
    """The file of the state directory that contains the node's uuid. It is written only once.

    Placement's root provider, every claim and the node's record have this uuid. A new uuid would
    orphan all of them, so a file that exists and cannot be read stops the agent.
    """

    def __init__(self, state_path: str) -> None:
        self.path = Path(state_path, "compute_id")

    def read(self) -> str | None:
        """Return the uuid, or None if there is no file.

        :raises IdentityError: the file cannot be read, or does not contain a uuid.
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
            raise IdentityError(f"{self.path} does not contain a uuid: {remedy}") from exc

    def write(self, node_uuid: str) -> None:
        """Create the file atomically and sync it to the disk; do nothing if it has this uuid.

        :raises IdentityError: the file has another uuid, or cannot be written.
        """
        if self.read() == node_uuid:
            return
        fresh = self.path.with_name(".compute_id.new")
        try:
            fresh.unlink(missing_ok=True)  # a start that was killed may have left it
            write_new(fresh, f"{node_uuid}\n", 0o644)
            os.link(fresh, self.path)  # unlike a rename, a link fails if the file exists
            sync_directory(self.path.parent)
        except FileExistsError as exc:
            raise IdentityError(f"{self.path} contains another uuid than {node_uuid}") from exc
        except OSError as exc:
            raise IdentityError(f"{self.path} cannot be written: {exc.strerror}") from exc
        finally:
            fresh.unlink(missing_ok=True)
