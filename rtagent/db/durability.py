"""Whether the database keeps a committed transaction when its server or its host fails.

A connection is checked before its first transaction that writes, and before a later one if its last
check is too old: an administrator can change the settings of a server while connections are open.
"""

import math
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

#: The key of a connection's `info`: until when its last check is valid.
_VALID_UNTIL = "durability"


def guard(engine: Engine, kind: Backend) -> None:
    """Refuse transactions that write on a connection which may lose them: they raise
    `StoreUnavailable`.
    """

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if not connection.get_execution_options().get("writes", False):
            return
        valid_until: float = connection.info.get(_VALID_UNTIL, -math.inf)
        if time.monotonic() >= valid_until and (found := _faults(kind, connection)):
            raise StoreUnavailable(_sentence(kind, found))


def faults(engine: Engine) -> str:
    """Check the database now. Return what makes it lose committed transactions, or "".

    :raises StoreUnavailable:
    """
    kind = backend(engine.dialect.name)
    with Transactions(engine).query() as connection:
        # The pool lends the most recently used connection, so the next commit relies on this check.
        found = _faults(kind, connection)
    return _sentence(kind, found) if found else ""


def require(engine: Engine) -> None:
    """Check the database now.

    :raises NotDurable: it may lose committed transactions; the message names setting and remedy.
    :raises StoreUnavailable:
    """
    if why := faults(engine):
        raise NotDurable(why)


def _sentence(kind: Backend, faults: Sequence[Fault]) -> str:
    return f"{kind.title} may lose committed claims: {'; '.join(map(str, faults))}"


def _faults(kind: Backend, connection: Connection) -> Sequence[Fault]:
    def query(sql: str) -> Sequence[Sequence[Any]]:
        return [tuple(row) for row in connection.exec_driver_sql(sql)]

    found = kind.faults(connection.connection.dbapi_connection, query)
    connection.info[_VALID_UNTIL] = -math.inf if found else time.monotonic() + VALID
    return found
