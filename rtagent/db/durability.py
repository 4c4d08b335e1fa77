"""Whether the database keeps a committed transaction when its server or its host fails.

A connection is checked before its first transaction that writes, and before a later one if its last
check is too old: an administrator can change the settings of a server while connections are open.
"""

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine, event

from rtagent.db.backends import Backend, backend
from rtagent.db.backends.backend import Fault
from rtagent.db.transaction import Transactions
from rtagent.errors import NotDurable, StoreUnavailable

#: Seconds for which the check of a connection is valid.
VALID = 10.0

_CHECK = "durability"


def guard(engine: Engine, kind: Backend) -> None:
    """Refuse transactions that write on a connection which may lose them: they raise
    `StoreUnavailable`.
    """

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if not connection.get_execution_options().get("writes", False):
            return
        check: _AgedResult | None = connection.info.get(_CHECK)
        if check is None or check.faults or check.age >= VALID:
            check = connection.info[_CHECK] = _AgedResult(_faults(kind, connection))
        if check.faults:
            raise StoreUnavailable(_sentence(kind, check.faults))


def faults(engine: Engine) -> str:
    """Check the database now. Return what makes it lose committed transactions, or "".

    :raises StoreUnavailable:
    """
    kind = backend(engine.dialect.name)
    with Transactions(engine).query() as connection:
        found = _faults(kind, connection)
        # The pool lends the most recently used connection: the next commit sees this result.
        connection.info[_CHECK] = _AgedResult(found)
    return _sentence(kind, found) if found else ""


def require(engine: Engine) -> None:
    """Check the database now.

    :raises NotDurable: it may lose committed transactions; the message names setting and remedy.
    :raises StoreUnavailable:
    """
    if why := faults(engine):
        raise NotDurable(why)


class _AgedResult:
    """The result of a check, and its age in seconds."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = faults
        self._made = time.monotonic()

    @property
    def age(self) -> float:
        return time.monotonic() - self._made


def _sentence(kind: Backend, faults: Sequence[Fault]) -> str:
    return f"{kind.title} may lose committed claims: {'; '.join(map(str, faults))}"


def _faults(kind: Backend, connection: Connection) -> Sequence[Fault]:
    def query(sql: str) -> Sequence[Sequence[Any]]:
        return [tuple(row) for row in connection.exec_driver_sql(sql)]

    return kind.faults(connection.connection.dbapi_connection, query)
