"""MemoryWitness: what a process remembers of its node without a file."""

from __future__ import annotations

from rtagent.model.store_restore import StoreRestore
from rtagent.ports import Mark


class MemoryWitness:
    """A `Witness` that lasts as long as the process."""

    def __init__(self) -> None:
        self.mark: Mark | None = None
        self.restore: StoreRestore | None = None

    def record(self, mark: Mark) -> None:
        self.mark = mark

    def keep(self, restore: StoreRestore) -> None:
        self.restore = restore

    def sync(self) -> None:
        """Do nothing, because nothing is written."""
