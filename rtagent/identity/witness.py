"""FileWitness: what an agent remembers of its node outside of the store, in its state directory."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from rtagent.errors import StoreUnavailable
from rtagent.identity.mark_file import MarkFile
from rtagent.model.position import Position
from rtagent.model.store_restore import StoreRestore
from rtagent.model.stored import Stored
from rtagent.ports import Mark, Reporter

#: The part of the agent's health that shows whether the mark is written.
PART = "mark"
_decode = msgspec.json.Decoder(StoreRestore).decode
MARK, RESTORE = "high_water_mark", "store_restore.json"


class FileWitness:
    """A `Witness` in the files ``high_water_mark`` and ``store_restore.json``.

    :ivar restore: the last one that was kept. A file that cannot be read counts as one that is not
        accepted, because an agent writes the file only after it has noticed a restored store.
    """

    def __init__(self, state_path: str, stored: Stored, reporter: Reporter) -> None:
        """:param stored: what the enrollment has loaded."""
        directory = Path(state_path)
        self._reporter = reporter.named(__name__)
        self._restore_path = directory / RESTORE
        self._marks = MarkFile(directory / MARK, stored.node.uuid)
        self.restore = self._load()
        if self._marks.doubt and stored.revision:
            doubt = "a database that went back in time may not be noticed at this start"
            self._reporter.log("warning", f"{self._marks.doubt}: {doubt}")

    @property
    def mark(self) -> Mark | None:
        return self._marks.mark

    def record(self, mark: Mark) -> None:
        with suppress(OSError):  # the next sync tries again, and reports
            self._marks.write(mark)

    def keep(self, restore: StoreRestore) -> None:
        fresh = self._restore_path.with_suffix(".new")
        try:
            with open(fresh, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(restore)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._restore_path)
            _sync(self._restore_path.parent)
        except OSError as exc:
            raise StoreUnavailable(
                f"{restore}, and {self._restore_path} cannot be written: {exc.strerror}"
            ) from exc
        self.restore = restore

    def sync(self) -> None:
        try:
            self._marks.sync()
        except OSError as exc:
            why = f"{self._marks.path} cannot be written: {exc.strerror}"
            self._reporter.health(PART, "warn", why)
        else:
            self._reporter.health(PART, "pass")

    def close(self) -> None:
        """Close the files."""
        self._marks.close()

    def _load(self) -> StoreRestore | None:
        try:
            return _decode(self._restore_path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            sentence = f"{self._restore_path} cannot be read, and counts as not accepted: {error}"
            self._reporter.log("error", sentence)
        unknown, now = Position(epoch=0, revision=0), datetime.now(UTC)
        return StoreRestore(
            found=unknown,
            acknowledged=unknown,
            acknowledged_at=now,
            noticed_at=now,
            revision=0,
            compared=False,
        )


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
