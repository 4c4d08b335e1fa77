"""FileWitness: what an agent remembers of its node outside of the store, in its state directory."""

import os
import struct
import threading
import uuid
import zlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from rtagent.errors import StoreUnavailable
from rtagent.identity.locks import write_durably
from rtagent.model.store_restore import StoreRestore
from rtagent.model.stored import Position, Stored
from rtagent.ports import Mark, Reporter

#: A slot: format, node uuid, epoch, revision, microseconds since 1970; then CRC-32 of these.
_FIELDS = struct.Struct(">8s16sQQQ")
_CHECKSUM = struct.Struct(">I")
_FORMAT = b"rtmark 1"
#: Bytes from slot to slot: each slot is in a disk sector of its own.
_STRIDE = 512
_SLOTS = 2
_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)


class MarkFile:
    """The file ``high_water_mark`` of a state directory: the highest position of a node that was
    acknowledged. Thread-safe; one thread calls `sync`.

    The file has two slots, which are written in turn, each with a checksum. A power failure can
    thus damage the newest mark only, and the one before is still a valid lower bound. A write goes
    to the page cache, which outlives the process; `sync` writes it to the disk. So the mark may be
    older than the last acknowledged commit after a power failure, but it is never ahead of it.

    :ivar mark: the last one, whether or not it could be written.
    :ivar doubt: why a mark that was lost may have been higher, or "".
    """

    def __init__(self, path: Path, node_uuid: str) -> None:
        """Read the mark of this node. The file is made if there is none."""
        self.path, self._node = path, uuid.UUID(node_uuid).bytes
        self.mark: Mark | None = None
        self.doubt = ""
        self._next = 0
        self._lock = threading.Lock()
        self._file = -1
        try:
            self._file = _open(path)
            self._read()
        except OSError as exc:
            self.doubt = f"{path} cannot be used: {exc.strerror}"

    def write(self, mark: Mark) -> None:
        """Replace the older slot. :raises OSError: it could not be written."""
        with self._lock:
            self.mark = mark
            self._write(mark)

    def sync(self) -> None:
        """Write the mark to the disk. If the file was removed or replaced, make it anew.

        :raises OSError: the mark is not on the disk.
        """
        with self._lock:
            if not self._is_in_place():
                fresh = _open(self.path)
                self._close()
                self._file = fresh
            if self.mark is not None:
                self._write(self.mark)
        os.fdatasync(self._file)  # without the lock: commits do not wait for the disk

    def close(self) -> None:
        """Close the file. Later writes fail."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._file != -1:
            os.close(self._file)
        self._file = -1  # the number may soon be that of another file

    def _write(self, mark: Mark) -> None:
        at = (mark.at - _ORIGIN) // timedelta(microseconds=1)
        # Less than 0 is damage of the node's record.
        epoch, revision = max(0, mark.position.epoch), max(0, mark.position.revision)
        fields = _FIELDS.pack(_FORMAT, self._node, epoch, revision, at)
        os.pwrite(self._file, fields + _CHECKSUM.pack(zlib.crc32(fields)), self._next * _STRIDE)
        self._next = (self._next + 1) % _SLOTS

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except OSError:
            return False

    def _read(self) -> None:
        found: list[tuple[Mark, int]] = []
        for slot in range(_SLOTS):
            text = os.pread(self._file, _FIELDS.size + _CHECKSUM.size, slot * _STRIDE)
            mark = self._decoded(text)
            if mark is not None:
                found.append((mark, slot))
            elif text.strip(b"\0"):
                self.doubt = f"{self.path}: slot {slot} is damaged, or of another node"
        if found:
            self.mark, last = max(found, key=lambda each: _order(each[0]))
            self._next = (last + 1) % _SLOTS
        elif not self.doubt:
            self.doubt = f"{self.path}: there is no mark"

    def _decoded(self, text: bytes) -> Mark | None:
        """The mark in the bytes of a slot, or None if they are not one of this node."""
        fields, checksum = text[: _FIELDS.size], text[_FIELDS.size :]
        if len(fields) < _FIELDS.size or checksum != _CHECKSUM.pack(zlib.crc32(fields)):
            return None
        kind, node, epoch, revision, at = _FIELDS.unpack(fields)
        if (kind, node) != (_FORMAT, self._node):
            return None
        position = Position(epoch=epoch, revision=revision)
        return Mark(position=position, at=_ORIGIN + timedelta(microseconds=at))


def _order(mark: Mark) -> tuple[int, int]:
    return mark.position.epoch, mark.position.revision


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


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
        content = msgspec.json.format(msgspec.json.encode(restore)) + b"\n"
        try:
            write_durably(self._restore_path, content)
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
