"""Transactions, prepared statements, and the translation and the counts of database errors."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Dialect, Engine, RootTransaction, text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import UpdateBase

from rtagent.db.backends import Backend, backend
from rtagent.db.backup import with_last_backup
from rtagent.errors import (
    ChangeRejected,
    CommitUnknown,
    Deadlock,
    RtAgentError,
    StoreDamaged,
    StoreUnavailable,
)

#: What a failed transaction is counted as.
TIMEOUT, DEADLOCK, REFUSED = "timeout", "deadlock", "refused"
DAMAGED, UNAVAILABLE = "damaged", "unavailable"
EVERY_KIND = (TIMEOUT, DEADLOCK, REFUSED, DAMAGED, UNAVAILABLE)


class SqlErrors:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counter(dict.fromkeys(EVERY_KIND, 0))

    def add(self, backend: Backend, error: Exception, translated: RtAgentError) -> None:
        """Count an error of a driver or of the pool. :param translated: what callers get."""
        kind = _kind(backend, error, translated)
        with self._lock:
            self._counts[kind] += 1

    def counts(self) -> Mapping[str, int]:
        """Return the number of each kind."""
        with self._lock:
            return dict(self._counts)


def _kind(backend: Backend, error: Exception, translated: RtAgentError) -> str:
    if isinstance(translated, Deadlock):
        return DEADLOCK
    if isinstance(translated, ChangeRejected):
        return REFUSED
    if isinstance(translated, StoreDamaged):
        return DAMAGED
    if not isinstance(error, DBAPIError):  # the pool's: no connection was free in time
        return TIMEOUT
    return TIMEOUT if backend.timed_out(error) else UNAVAILABLE


_errors: WeakKeyDictionary[Engine, SqlErrors] = WeakKeyDictionary()
_lock = threading.Lock()


def errors_of(engine: Engine) -> SqlErrors:
    """Return the counters of an engine, which all its transactions share."""
    with _lock:
        return _errors.setdefault(engine, SqlErrors())


_FOREIGN = (DBAPIError, PoolTimeout, UnicodeError)


class Transactions:
    """Begin and end transactions, and translate their errors.

    Every method raises `StoreUnavailable` if the database did not execute the transaction.
    """

    def __init__(self, engine: Engine) -> None:
        self._backend: Backend = backend(engine.dialect.name)
        self._errors = errors_of(engine)
        self._plain = engine

    # SQLAlchemy takes longer to make one of these engines than to execute a statement.

    @cached_property
    def _snapshot(self) -> Engine:
        return self._plain.execution_options(**self._backend.snapshot)

    @cached_property
    def _writing(self) -> Engine:
        return self._plain.execution_options(writes=True)

    @cached_property
    def _serial(self) -> Engine:
        return self._plain.execution_options(writes=True, **self._backend.serial)

    @contextmanager
    def query(self) -> Iterator[Connection]:
        """Open a connection for one read."""
        with self._translated(), self._plain.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Open a connection for several reads that see one moment."""
        with self._translated(), self._snapshot.connect() as connection:
            yield connection

    @contextmanager
    def write(self, *, serial: bool = False) -> Iterator[Connection]:
        """Open a transaction. Commit it at the end of the block; roll it back on an error.

        :param serial: isolate it from other such transactions.
        :raises ChangeRejected: the database refused the rows.
        :raises Deadlock: the database ended the transaction in favour of another.
        :raises CommitUnknown: the connection was lost while COMMIT was in flight.
        """
        engine = self._serial if serial else self._writing
        with self._translated(), engine.connect() as connection:
            transaction = connection.begin()
            yield connection
            self._commit(transaction)

    @contextmanager
    def write_repeatable(self, *, serial: bool = False) -> Iterator[Connection]:
        """Open a transaction that may be done again if its outcome is unknown.

        :param serial: as for `write`.
        :raises StoreUnavailable: it was not committed, or it is unknown whether it was.
        """
        try:
            with self.write(serial=serial) as connection:
                yield connection
        except (ChangeRejected, Deadlock, CommitUnknown) as error:
            raise StoreUnavailable(error.message) from error

    @contextmanager
    def write_named(self, name: str) -> Iterator[Connection]:
        """Open a transaction that is isolated from others of this name, and may be done again.

        PostgreSQL refuses most of the serializable transactions that read one small table at the
        same time, whatever their rows. So these wait for each other instead.

        :raises StoreUnavailable: as `write_repeatable`.
        """
        lock = self._backend.name_lock
        with self.write_repeatable(serial=lock is None) as connection:
            if lock is not None:
                connection.execute(text(lock), {"name": name})
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _FOREIGN as error:
            raise self._counted(error) from error

    def _commit(self, transaction: RootTransaction) -> None:
        try:
            transaction.commit()
        except DBAPIError as error:
            translation = self._counted(error)
            if isinstance(translation, StoreUnavailable) and not self._unwritten(error):
                translation = CommitUnknown(translation.message)
            raise translation from error

    def _unwritten(self, error: DBAPIError) -> bool:
        return self._backend.code(error) in self._backend.unwritten

    def _counted(self, error: Exception) -> RtAgentError:
        translation = self._translation(error)
        self._errors.add(self._backend, error, translation)
        return translation

    def _translation(self, error: Exception) -> RtAgentError:
        if isinstance(error, UnicodeError):
            return ChangeRejected(f"the text has no UTF-8 encoding: {error}")
        if not isinstance(error, DBAPIError):
            return StoreUnavailable(f"{self._backend.title}: {error}")
        cause = f"{self._backend.title}: {_first_line(error)}"
        if isinstance(error, IntegrityError | DataError):
            return ChangeRejected(cause, taken=isinstance(error, IntegrityError))
        if self._backend.code(error) in self._backend.deadlocks:
            return Deadlock(cause)
        if self._backend.code(error) in self._backend.damaged:
            where = self._plain.url.database
            remedy = with_last_backup(self._backend.restore, where)
            return StoreDamaged(f"{cause}: {where} is damaged: {remedy}")
        return StoreUnavailable(cause)


class Statement:
    """An INSERT, UPDATE or DELETE that is compiled once for a dialect, at its first use.

    Commits send these thousands of times a second. SQLAlchemy's own cache saves the compilation,
    but not the lookup in the cache, nor the unused result object.
    """

    def __init__(self, dialect: Dialect, clause: UpdateBase, columns: Sequence[str]) -> None:
        """:param columns: the columns for which each row has a value."""
        self._dialect, self._clause, self._columns = dialect, clause, columns

    @cached_property
    def _compiled(self) -> _Compiled:
        return _Compiled(self._clause.compile(dialect=self._dialect, column_keys=self._columns))

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Execute the statement for these rows, if there are any. Return the number of rows of the
        table that matched.
        """
        if not rows:
            return 0
        compiled = self._compiled
        values = [compiled.parameters(row) for row in rows]
        return connection.exec_driver_sql(compiled.sql, values).rowcount


class _Compiled:
    """A statement as the driver takes it."""

    def __init__(self, compiled: SQLCompiler) -> None:
        self.sql = str(compiled)
        self._by_position = compiled.positional
        # Names of the bound parameters. For positional parameters, in the order of the statement.
        self._names: Sequence[str] = getattr(compiled, "positiontup", None) or list(compiled.binds)
        dialect = compiled.dialect
        converters = (
            compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect)
            for name in self._names
        )
        self._converters = [(at, convert) for at, convert in enumerate(converters) if convert]

    def parameters(self, row: Mapping[str, Any]) -> Any:
        """Return the parameters of a row."""
        values = [row[name] for name in self._names]
        for at, convert in self._converters:
            values[at] = convert(values[at])
        return tuple(values) if self._by_position else dict(zip(self._names, values, strict=True))


def _first_line(error: DBAPIError) -> str:
    """Return the first line of the driver's message. PyMySQL puts a number before it."""
    message = str(error.orig.args[-1] if error.orig and error.orig.args else error.orig)
    return message.strip().partition("\n")[0]
