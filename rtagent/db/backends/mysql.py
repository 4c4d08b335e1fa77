"""MariaDB and MySQL, with PyMySQL."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError

from rtagent.db.backends.backend import (
    Backend,
    Code,
    Fault,
    Options,
    Query,
    refuse_dropped,
    server_seconds,
)
from rtagent.db.schema import metadata

#: The values with which each variable keeps committed transactions. A server without a variable
#: has nothing to set.
_DURABLE: Mapping[str, Sequence[str]] = {
    "innodb_flush_log_at_trx_commit": ("1", "3"),
    "innodb_doublewrite": ("ON", "1", "FAST", "DETECT_AND_RECOVER"),
    "sync_binlog": ("1",),
}
_BINARY_LOG = "log_bin"
_VARIABLES = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})".format(
    names=", ".join(f"'{name}'" for name in (*_DURABLE, _BINARY_LOG))
)
#: Other engines have no transactions.
_TABLES = """
SELECT table_name, engine FROM information_schema.tables
WHERE table_schema = DATABASE() AND engine <> 'InnoDB' AND table_name IN ({names})
""".format(names=", ".join(f"'{table}'" for table in metadata.tables))


class MySQL(Backend):
    """InnoDB with row locks. The isolation level is READ COMMITTED, because the default level locks
    the gaps between the rows of different nodes.
    """

    title = "MariaDB"
    # 1213: deadlock, or refused by a cluster. 1020: the row has changed since the snapshot.
    deadlocks: ClassVar[frozenset[Code]] = frozenset({1213, 1020})
    # 1205: a lock. 1969, 3024: a statement.
    timeouts: ClassVar[frozenset[Code]] = frozenset({1205, 1969, 3024})
    damaged: ClassVar[frozenset[Code]] = frozenset({1034, 1194, 1195, 1712})
    now = "UTC_TIMESTAMP(6)"
    native_backup = "mariadb-dump --single-transaction --result-file=FILE DATABASE"

    def arguments(self, timeout: float) -> Options:
        bounds = {"connect_timeout": timeout, "read_timeout": timeout, "write_timeout": timeout}
        return {
            "connect_args": {"charset": "utf8mb4", **bounds},
            "isolation_level": "READ COMMITTED",
        }

    def listen(self, engine: Engine, timeout: float) -> None:
        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _: object) -> None:
            settings = _settings(timeout, "MariaDB" in connection.get_server_info())
            with connection.cursor() as cursor:
                cursor.execute(
                    "SET SESSION " + ", ".join(f"{name} = {value}" for name, value in settings)
                )

        @event.listens_for(engine, "checkout")
        def check_out(connection: Any, _: object, __: object) -> None:
            # PyMySQL has no public attribute for its socket.
            refuse_dropped(connection._sock.fileno())

    def faults(self, connection: Any, query: Query) -> Sequence[Fault]:
        values = {str(name): str(value) for name, value in query(_VARIABLES)}
        if values.get(_BINARY_LOG) != "ON":
            values.pop("sync_binlog", None)
        found = [
            Fault(setting=name, value=values[name], remedy=_remedy(name, durable[0]))
            for name, durable in _DURABLE.items()
            if name in values and values[name].upper() not in durable
        ]
        return found + [
            Fault(
                setting=f"the engine of table {table}",
                value=engine,
                remedy=f"ALTER TABLE {table} ENGINE = InnoDB",
            )
            for table, engine in query(_TABLES)
        ]

    def code(self, error: DBAPIError) -> Code:
        args = getattr(error.orig, "args", ())
        return args[0] if args else None


def _settings(timeout: float, mariadb: bool) -> list[tuple[str, object]]:
    seconds = server_seconds(timeout)
    whole = max(1, int(seconds))
    settings: list[tuple[str, object]] = [
        ("sql_mode", "'TRADITIONAL'"),
        ("innodb_lock_wait_timeout", whole),
    ]
    if mariadb:
        # An agent that is stopped within a transaction would keep its node's row locked.
        settings += [("max_statement_time", seconds), ("idle_transaction_timeout", whole)]
    return settings


def _remedy(name: str, value: str) -> str:
    if name == "innodb_doublewrite":
        return f"set it to {value} in the server's configuration file and restart the server"
    return f"SET GLOBAL {name} = {value}, and set it in the server's configuration file"
