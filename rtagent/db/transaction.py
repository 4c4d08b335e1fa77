"""Transactions, and the one place where the database's errors become ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, RootTransaction
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from rtagent.db.backends import Backend, backend
from rtagent.errors import (
    ChangeRejected,
    CommitUnknown,
    Deadlock,
    RtAgentError,
    StoreUnavailable,
)

_FOREIGN = (DBAPIError, PoolTimeout, UnicodeError)


class Transactions:
    """Begins them, ends them, and says what an error in them means."""

    def __init__(self, engine: Engine) -> None:
        self._backend: Backend = backend(engine.dialect.name)
        self._plain = engine
        self._snapshot = engine.execution_options(**self._backend.snapshot)
        self._writing = engine.execution_options(writes=True)
        self._serial = engine.execution_options(writes=True, **self._backend.serial)

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """To read once.

        :raises StoreUnavailable: as all of these do when the database did not do it.
        """
        with self._translated(), self._plain.connect() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """To read several times, all of one moment."""
        with self._translated(), self._snapshot.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """To write: committed at the end of the block, rolled back when it raises.

        :raises ChangeRejected: the database refused the rows.
        :raises Deadlock: it ended the transaction in favour of another.
        :raises CommitUnknown: the connection went while COMMIT was in flight.
        """
        with self._translated(), self._writing.connect() as connection:
            transaction = connection.begin()
            yield connection
            self._commit(transaction)

    @contextmanager
    def rewrite(self, *, serial: bool = False) -> Iterator[Connection]:
        """To write what the next try may write again.

        :param serial: as if no other such transaction ran at the same time.
        :raises StoreUnavailable: it was not done, or it is not known whether it was.
        """
        engine = self._serial if serial else self._writing
        try:
            with self._translated(), engine.connect() as connection:
                transaction = connection.begin()
                yield connection
                self._commit(transaction)
        except (ChangeRejected, Deadlock, CommitUnknown) as error:
            raise StoreUnavailable(error.message) from error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _FOREIGN as error:
            raise self._meaning(error) from error

    def _commit(self, transaction: RootTransaction) -> None:
        try:
            transaction.commit()
        except DBAPIError as error:
            meaning = self._meaning(error)
            if isinstance(meaning, StoreUnavailable) and not self._unwritten(error):
                meaning = CommitUnknown(meaning.message)
            raise meaning from error

    def _unwritten(self, error: DBAPIError) -> bool:
        return self._backend.code(error) in self._backend.unwritten

    def _meaning(self, error: Exception) -> RtAgentError:
        if isinstance(error, UnicodeError):
            return ChangeRejected(f"text that cannot be written as UTF-8: {error}")
        if not isinstance(error, DBAPIError):
            return StoreUnavailable(f"{self._backend.title}: {error}")
        cause = f"{self._backend.title}: {_sentence(error)}"
        if isinstance(error, IntegrityError | DataError):
            return ChangeRejected(cause, taken=isinstance(error, IntegrityError))
        if self._backend.code(error) in self._backend.deadlocks:
            return Deadlock(cause)
        return StoreUnavailable(cause)


def _sentence(error: DBAPIError) -> str:
    """What the driver says, on one line: PyMySQL brings a number before it."""
    text = str(error.orig.args[-1] if error.orig and error.orig.args else error.orig)
    return text.strip().partition("\n")[0]
