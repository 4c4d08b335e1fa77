"""Interruption: Nova's database is gone for one compute service, from a chosen transaction on."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from nova.compute import manager, resource_tracker
from nova.db.main import models
from sqlalchemy import event
from sqlalchemy.engine import Engine

from rtagent.nova.node_settings import DIRECTORY

TRACKER, MANAGER = resource_tracker.ResourceTracker, manager.ComputeManager

_TABLES = frozenset(models.BASE.metadata.tables)
_NAMED = re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN)\s+\"?(\w+)")
_WRITES = ("INSERT", "UPDATE", "DELETE")


class Killed(BaseException):
    """Ends a thread as the end of its process does: no handler of errors runs."""


class Interruption:
    """While it is entered: the statements of a compute service for Nova's database fail, from the
    n-th transaction on in which it writes. All other services have the database.

    :ivar happened: that transaction was reached.
    """

    def __init__(
        self,
        host: str,
        number: int,
        error: Callable[[], BaseException],
        at_first: Callable[[], None] = lambda: None,
        writer: type[Any] = TRACKER,
    ) -> None:
        """:param number: n, from 1. :param at_first: called before the first failure.
        :param writer: the class whose writes are counted, with those that it calls.
        """
        self._host, self._number, self._writer = host, number, writer
        self._error, self._at_first = error, at_first
        self._counted = 0
        self._transaction: Any = None
        self.happened = False

    def __enter__(self) -> Self:
        event.listen(Engine, "before_cursor_execute", self._before)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(Engine, "before_cursor_execute", self._before)

    def _before(self, connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if f"/{DIRECTORY}/" in str(connection.engine.url.database):
            return
        if not _TABLES.intersection(_NAMED.findall(statement)):
            return
        running = list(callers())
        if (
            not self.happened
            and statement.startswith(_WRITES)
            and self._is_among(running, self._writer)
        ):
            self._count(connection.get_transaction())
            if self._counted == self._number:
                self.happened = True
                self._at_first()
        if self.happened and self._is_among(running, (TRACKER, MANAGER)):
            raise self._error()

    def _is_among(self, running: Iterable[Any], classes: type[Any] | tuple[type[Any], ...]) -> bool:
        """Whether an object of the host, of one of these classes, is running."""
        return any(isinstance(each, classes) and each.host == self._host for each in running)

    def _count(self, transaction: Any) -> None:
        if transaction is not self._transaction:
            self._transaction = transaction
            self._counted += 1


def callers() -> Iterator[Any]:
    """Yield the objects whose methods are running in this thread."""
    frame = inspect.currentframe()
    while frame is not None:
        if "self" in frame.f_code.co_varnames:
            yield frame.f_locals.get("self")
        frame = frame.f_back
