"""The servers of a fleet, with what they count.

Placement has MariaDB, and the agents have PostgreSQL: SQLite refuses concurrent writers, Placement
cannot write allocations with the driver psycopg 3, and so each count is of one client.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import psutil
import psycopg

from tests.servers import Placement, PostgreSQL, RabbitMQ
from tests.servers.placement import Request

#: Connections of the database: 20 for every five of 1,000 hosts, and 200 for others.
CONNECTIONS = 4200
#: Statements that change rows.
_WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
#: The number of published messages, of all connections.
_PUBLISHED = (
    "maps:get(messages_received_total,"
    " maps:get([{protocol, amqp091}], rabbit_global_counters:overview()))"
)


class FleetPostgreSQL(PostgreSQL):
    """PostgreSQL that counts statements, and gives transaction numbers to the agents alone."""

    def command(self) -> Sequence[str]:
        settings = {
            "max_connections": CONNECTIONS,
            "shared_preload_libraries": "pg_stat_statements",
            "pg_stat_statements.track_utility": "off",
            "autovacuum": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [*super().command(), *options]

    def count_statements(self, database_url: str) -> None:
        """Count the statements of a database from now on."""
        self._query(database_url, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")

    def statements(self, database_url: str) -> Counter[str]:
        """Return how often each statement was executed, with its constants left out."""
        found = self._query(
            database_url,
            "SELECT query, sum(calls)::bigint FROM pg_stat_statements WHERE dbid ="
            " (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY query",
        )
        return Counter(dict(found))

    def writing_transactions(self, database_url: str) -> int:
        """Return how many transactions have written, since the server was made."""
        query = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
        return int(self._query(database_url, query)[0][0])

    def transactions_now(self, database_url: str) -> int | None:
        """Return the same; None: the server does not answer."""
        try:
            return self.writing_transactions(database_url)
        except psycopg.OperationalError:
            return None

    def rows(self, database_url: str, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._query(database_url, query)

    def connections(self) -> int:
        """Return the number of connections of clients."""
        with self._connect() as connection:
            query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            row = connection.execute(query).fetchone()
            assert row is not None
            return int(row[0])

    def _query(self, database_url: str, query: str) -> list[tuple[Any, ...]]:
        name = database_url.rpartition("/")[2]
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user="rtagent", dbname=name, autocommit=True
        ) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []


class FleetRabbitMQ(RabbitMQ):
    """RabbitMQ that counts."""

    def published(self) -> int:
        """Return how many messages clients have published since the start."""
        return int(self.evaluate(_PUBLISHED))

    def connections(self) -> int:
        """Return the number of connections of clients."""
        return int(self.evaluate("length(rabbit_networking:connections())"))


class FleetPlacement(Placement):
    """Placement whose log of requests is read as it grows."""

    def __init__(self) -> None:
        super().__init__()
        self._read = 0

    def number_of_requests(self) -> int:
        """Return how many requests were served since the first start."""
        with self._access.open("rb") as log:
            return sum(1 for _ in log)

    def new_requests(self) -> list[Request]:
        """Return the requests since the last call."""
        with self._access.open() as log:
            log.seek(self._read)
            text = log.read()
            complete = text[: text.rfind("\n") + 1]
            self._read += len(complete.encode())
        return [Request(*json.loads(line)) for line in complete.splitlines()]


def is_write(statement: str) -> bool:
    """Return whether a statement changes rows."""
    return _WRITES.match(statement) is not None


def cpu_seconds(pid: int, *, children: bool) -> float:
    """Return the CPU time of a process and its ended children.

    :param children: add that of its living children.
    """
    try:
        process = psutil.Process(pid)
        used = sum(process.cpu_times()[:4])
        living = process.children(recursive=True) if children else ()
    except psutil.NoSuchProcess:
        return 0.0
    for child in living:
        try:
            used += sum(child.cpu_times()[:2])
        except psutil.NoSuchProcess:  # counted as an ended child next time
            continue
    return used


def memory_mb(pid: int) -> float:
    """Return the memory of a process and its children in MiB. Shared pages count in parts."""
    process, found = psutil.Process(pid), 0
    for each in (process, *process.children(recursive=True)):
        try:
            found += each.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return found / 2**20
