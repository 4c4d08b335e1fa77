"""Interruption: Nova's database is gone for one compute service, from a chosen transaction on."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from nova.db.main import models
from sqlalchemy import event
from sqlalchemy.engine import Engine

from rtagent.nova.store_file import DIRECTORY

_TABLES = frozenset(models.BASE.metadata.tables)
_NAMED = re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN)\s+\"?(\w+)")
_WRITES = ("INSERT", "UPDATE", "DELETE")


class Killed(BaseException):
    """Ends a thread as the end of its process does: no handler of errors runs."""


class Interruption:
    """While it is entered: the statements of a compute manager for Nova's database fail, from the
    n-th transaction on in which its tracker writes. All other services have the database.

    :ivar happened: that transaction was reached.
    """

    def __init__(
        self,
        manager: Any,
        number: int,
        error: Callable[[], BaseException],
        at_first: Callable[[], None] = lambda: None,
    ) -> None:
        """:param number: n, from 1. :param at_first: called before the first failure."""
        self._manager, self._number = manager, number
        self._error, self._at_first = error, at_first
        self._counted = 0
        self._transaction: Any = None
        self.happened = False

    def __enter__(self) -> Self:
        event.listen(Engine, "before_cursor_execute", self._before)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        event.remove(Engine, "before_cursor_execute", self._before)

    def _before(self, connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if f"/{DIRECTORY}/" in str(connection.engine.url.database):
            return
        if not _TABLES.intersection(_NAMED.findall(statement)):
            return
        callers = list(_callers())
        is_tracker = any(each is self._manager.rt for each in callers)
        if not self.happened and is_tracker and statement.startswith(_WRITES):
            self._count(connection.get_transaction())
            if self._counted == self._number:
                self.happened = True
                self._at_first()
        if self.happened and (is_tracker or any(each is self._manager for each in callers)):
            raise self._error()

    def _count(self, transaction: Any) -> None:
        if transaction is not self._transaction:
            self._transaction = transaction
            self._counted += 1


def _callers() -> Iterator[Any]:
    """Yield the objects whose methods are running in this thread."""
    frame = inspect.currentframe()
    while frame is not None:
        if "self" in frame.f_code.co_varnames:
            yield frame.f_locals.get("self")
        frame = frame.f_back
