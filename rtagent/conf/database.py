"""[database] and [events]: the database of claims, and the events in it."""

from rtagent.conf.options import Group, option


class Database(Group, frozen=True, kw_only=True):
    """[database].

    :ivar connection:
        The SQLAlchemy URL of the database.

        The default is an embedded database in a file of the state directory; its schema is created
        at the first start. For ``postgresql+psycopg://USER:PASSWORD@HOST/NAME`` and
        ``mysql+pymysql://...``, create or upgrade the schema with ``rtagent db sync``.
    :ivar operation_timeout:
        The time limit of one database operation in seconds, from 1 to 300. It sets the time-outs
        for connections, statements and locks. When the database does not answer a claim in time,
        the caller gets a retriable error.
    :ivar require_durability:
        Refuse a database that may lose committed claims when its server or its host fails.

        * True: the agent does not start with such a database. If a setting changes while it runs,
          it refuses every change until the setting is corrected. The error names setting, value and
          remedy.
        * False: the agent works. Its health shows the part ``durability`` as *warn* as long as it
          is so.

        PostgreSQL needs ``fsync``, ``full_page_writes`` and logged tables; the agent itself sets
        ``synchronous_commit`` for its connections. MariaDB and MySQL need InnoDB tables,
        ``innodb_flush_log_at_trx_commit = 1``, ``innodb_doublewrite`` and, with a binary log,
        ``sync_binlog = 1``. SQLite needs a file system on which it can use its write-ahead log.
    """

    connection: str = option(default="sqlite:///$state_path/rtagent.sqlite", secret=True)
    operation_timeout: int = option(default=5, min=1, max=300)
    require_durability: bool = option(default=True)


class Events(Group, frozen=True, kw_only=True):
    """[events].

    :ivar kept:
        How many of the last events of the node stay in the database.

        Notifications that the message broker has not accepted yet, and readers of ``/events`` that
        come back later, find events among these. Older ones are removed, also if they were not
        published: then the metric ``rtagent_events_dropped_total`` counts them. An event takes less
        than 1 KiB.

        A change takes effect at the next start.
    """

    kept: int = option(default=10_000, min=1000, max=1_000_000)
