"""ReadDocuments: the documents of domains as they were last read, within a bound of memory."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Collection
from datetime import UTC, datetime

from rtagent.model.guest import DomainDocument

#: Bytes of all compressed documents. Those that were not read for longest are dropped first.
CAPACITY = 32 * 1024 * 1024
#: Bytes of the longest document that is kept. libvirt itself allows no longer string.
LONGEST = 4 * 1024 * 1024

#: The fastest level: an audit of thousands of domains must not take noticeably longer.
_LEVEL = 1


class ReadDocuments:
    """Thread-safe: audits write it, and the read API reads it instead of calling libvirt."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity, self._size = capacity, 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[bytes, datetime]] = OrderedDict()

    def keep(self, uuid: str, xml: str) -> None:
        """Keep the document of a domain that was read now."""
        content = xml.encode("utf-8", "replace")
        packed = b"" if len(content) > LONGEST else zlib.compress(content, _LEVEL)
        now = datetime.now(UTC)
        with self._lock:
            self._drop(uuid)
            if not packed:
                return
            self._kept[uuid] = (packed, now)
            self._size += len(packed)
            while self._size > self._capacity:
                self._drop(next(iter(self._kept)))

    def confirm(self, uuid: str) -> bool:
        """Note that the document of a domain was read now and is still the same one.

        :return: whether it is kept.
        """
        now = datetime.now(UTC)
        with self._lock:
            found = self._kept.pop(uuid, None)
            if found is not None:
                self._kept[uuid] = (found[0], now)
        return found is not None

    def retain(self, uuids: Collection[str]) -> None:
        """Drop the documents of all other domains: these no longer exist."""
        with self._lock:
            for uuid in self._kept.keys() - uuids:
                self._drop(uuid)

    def get(self, uuid: str) -> DomainDocument | None:
        """Return the document of a domain, or None if it is not kept."""
        with self._lock:
            found = self._kept.get(uuid)
        if found is None:
            return None
        packed, at = found
        return DomainDocument(xml=zlib.decompress(packed).decode(), at=at)

    def _drop(self, uuid: str) -> None:
        packed, _ = self._kept.pop(uuid, (b"", None))
        self._size -= len(packed)
