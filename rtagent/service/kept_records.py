"""KeptRecords: records of a scheduler's database that its view has, too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from rtagent.errors import StoreUnavailable
from rtagent.ports import Reporter
from rtagent.service.loop import Rest

#: Seconds between two reads of the database. Others may change it, and their messages may be lost.
INTERVAL = 60.0
#: Seconds until the next attempt after the database did not answer.
RETRY = 5.0

T = TypeVar("T")


class KeptRecords(Generic[T]):
    """Thread-safe. The view gets what was read: by every turn, and after every change."""

    def __init__(
        self,
        part: str,
        read: Callable[[], T],
        show: Callable[[T], None],
        changed: Callable[[], None],
        reporter: Reporter,
    ) -> None:
        """Read the records.

        :param part: the name of their health check. :param read: reads them in the database.
        :param show: replaces them in the view.
        :param changed: is called after every change, so that other schedulers read them again.
        :raises StoreUnavailable:
        """
        self._part, self._read, self._show, self._changed = part, read, show, changed
        self._reporter = reporter
        self._lock = threading.Lock()
        self._wake: Callable[[], None] = lambda: None
        self.read()

    def attach(self, wake: Callable[[], None]) -> None:
        """Call `wake` to run the next turn."""
        self._wake = wake

    def turn(self) -> Rest:
        """Read the records again."""
        try:
            self.read()
        except StoreUnavailable as error:
            self._reporter.health(self._part, "warn", error.message)
            return Rest(at_most=RETRY)
        self._reporter.health(self._part, "pass")
        return Rest(at_most=INTERVAL)

    def read(self) -> T:
        """Read the records now. :raises StoreUnavailable: the view stays as it is."""
        with self._lock:  # so that an older read does not replace a newer one
            found = self._read()
            self._show(found)
        return found

    def reread(self) -> None:
        """Read the records soon."""
        self._wake()

    def after_change(self) -> None:
        """React to a change that is in the database: it is announced, and shown if it can be read.

        A database that does not answer now does not make the change undone, so it is read later.
        """
        self._changed()
        try:
            self.read()
        except StoreUnavailable:
            self._wake()
