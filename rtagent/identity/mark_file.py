"""MarkFile: the highest position of a node that was acknowledged, in a file.

The file has two slots, which are written in turn, each with a checksum. A power failure can thus
damage the newest mark only, and the one before is still a valid lower bound. A write goes to the
page cache, which outlives the process; `sync` writes it to the disk. So the mark may be older than
the last acknowledged commit after a power failure, but it is never ahead of it.
"""

from __future__ import annotations

import os
import struct
import threading
import uuid
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rtagent.model.position import Position
from rtagent.ports import Mark

#: A slot: format, node uuid, epoch, revision, microseconds since 1970; then CRC-32 of these.
_FIELDS = struct.Struct(">8s16sQQQ")
_CHECKSUM = struct.Struct(">I")
_FORMAT = b"rtmark 1"
#: Bytes from slot to slot: each slot is in a disk sector of its own.
_STRIDE = 512
_SLOTS = 2
_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)


class MarkFile:
    """The file ``high_water_mark`` of a state directory. Thread-safe; one thread calls `sync`.

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
