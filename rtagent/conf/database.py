"""[database]: the database of claims."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.model.base import Value

GROUP = "database"

OPTS = [
    cfg.StrOpt(
        "connection",
        default="sqlite:///$state_path/rtagent.sqlite",
        secret=True,
        help="""
The SQLAlchemy URL of the database.

The default is an embedded database in a file of the state directory; its schema is created at the
first start. For ``postgresql+psycopg://USER:PASSWORD@HOST/NAME`` and ``mysql+pymysql://...``,
create or upgrade the schema with ``rtagent db sync``.
""",
    ),
    cfg.IntOpt(
        "operation_timeout",
        default=5,
        min=1,
        max=300,
        help="""
The time limit of one database operation in seconds, from 1 to 300. It sets the time-outs for
connections, statements and locks. When the database does not answer a claim in time, the caller
gets a retriable error.
""",
    ),
    cfg.BoolOpt(
        "require_durability",
        default=True,
        help="""
Refuse a database that may lose committed claims when its server or its host fails.

* True: the agent does not start with such a database. If a setting changes while it runs, it
  refuses every change until the setting is corrected. The error names setting, value and remedy.
* False: the agent works. Its health shows the part ``durability`` as *warn* as long as it is so.

PostgreSQL needs ``fsync``, ``full_page_writes`` and logged tables; the agent itself sets
``synchronous_commit`` for its connections. MariaDB and MySQL need InnoDB tables,
``innodb_flush_log_at_trx_commit = 1``, ``innodb_doublewrite`` and, with a binary log,
``sync_binlog = 1``. SQLite needs a file system on which it can use its write-ahead log.
""",
    ),
]


class Database(Value, frozen=True, kw_only=True):
    """:ivar operation_timeout: seconds."""

    connection: str
    operation_timeout: int
    require_durability: bool
