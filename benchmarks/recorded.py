"""The floor of commits: the statements that were executed, again, and nothing else."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from benchmarks.bench import Bench


class Recorded:
    """What was executed on an SQLite database while a function ran, and a copy of the database from
    before it.

    :ivar commits: the number of transactions.
    """

    def __init__(self, bench: Bench, database: Path, run: Callable[[], object]) -> None:
        self._copy = bench.directory() / database.name
        with closing(sqlite3.connect(database)) as before, closing(self._open()) as copy:
            before.backup(copy)
        self._executed: list[tuple[str, Any, bool]] = []
        event.listen(Engine, "before_cursor_execute", self._add)
        try:
            run()
        finally:
            event.remove(Engine, "before_cursor_execute", self._add)
        self.commits = sum(sql.startswith("BEGIN") for sql, _, _ in self._executed)

    def seconds(self) -> float:
        """Execute the same in the same transactions, once, with the same durability. Return the
        seconds that it took.
        """
        with closing(self._open()) as connection:
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                connection.execute(f"PRAGMA {pragma}")
            began = time.perf_counter()
            for sql, parameters, many in self._executed:
                if sql.startswith("BEGIN"):
                    connection.commit()
                if many:
                    connection.executemany(sql, parameters)
                else:
                    connection.execute(sql, parameters)
            connection.commit()
            return time.perf_counter() - began

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._copy, isolation_level=None)

    def _add(
        self, _: object, __: object, sql: str, parameters: Any, ___: object, many: bool
    ) -> None:
        self._executed.append((sql, parameters, many))
