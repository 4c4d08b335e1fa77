"""Replicas of MariaDB: a server that follows another one, and can take its place."""

import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Self

import pymysql

from tests.servers.daemon import wait_until
from tests.servers.mariadb import MariaDB

#: Each server needs a number of its own.
_numbers = itertools.count(1)
#: Milliseconds for which a commit waits for the replica: 46 days, longer than any run.
_FOR_EVER = 4_000_000_000
#: Seconds within which the replica has what the primary has.
_SECONDS = 60
#: The user of the daemons: root may write to a locked server.
USER = "rtagent"
_SYSTEM = {"information_schema", "mysql", "performance_schema", "sys"}


class LoggingMariaDB(MariaDB):
    """A server that a replica can follow. Its databases may be used as `USER`, too.

    Its log has a directory of its own: on a full disk MariaDB may write half of an event, and at
    the next crash it undoes what was acknowledged after that.
    """

    def __init__(self) -> None:
        super().__init__()
        self._number = next(_numbers)
        self._logs = tempfile.TemporaryDirectory(prefix="mariadb-log-")

    def command(self) -> Sequence[str]:
        return [
            *super().command(),
            f"--server-id={self._number}",
            f"--log-bin={self._logs.name}/binlog",
            "--log-slave-updates=ON",
            "--binlog-format=ROW",
            "--sync-binlog=1",
        ]

    def prepare(self) -> None:
        super().prepare()
        if os.geteuid() == 0:
            shutil.chown(self._logs.name, "mysql", "mysql")

    def close(self) -> None:
        super().close()
        self._logs.cleanup()

    def start(self) -> Self:
        super().start()
        with admin(self) as cursor:
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute(f"CREATE USER IF NOT EXISTS {USER}@'127.0.0.1'")
            cursor.execute(f"GRANT ALL ON *.* TO {USER}@'127.0.0.1'")
            cursor.execute(f"REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM {USER}@'127.0.0.1'")
        return self


class MariaDBReplica(LoggingMariaDB):
    """A replica of a running server, until `promote` makes it a server of its own."""

    def __init__(self, primary: LoggingMariaDB) -> None:
        super().__init__()
        self._primary = primary

    def follow(self) -> None:
        """Let the primary acknowledge only what this replica has, from now on until it dies.

        Returns when everything that was acknowledged before has arrived here, too.
        """
        self._copy()
        self.execute("SET GLOBAL rpl_semi_sync_slave_enabled = ON")
        self.execute(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self._primary.port},"
            " MASTER_USER='root', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1"
        )
        self.execute("START SLAVE")
        self._arrive()
        for setting in (
            f"rpl_semi_sync_master_timeout = {_FOR_EVER}",
            "rpl_semi_sync_master_wait_point = AFTER_SYNC",
            "rpl_semi_sync_master_wait_no_slave = ON",
            "rpl_semi_sync_master_enabled = ON",
        ):
            self._primary.execute(f"SET GLOBAL {setting}")
        # Whether commits wait for a replica is agreed when it connects.
        self.execute("STOP SLAVE IO_THREAD")
        self.execute("START SLAVE IO_THREAD")
        wait_until(lambda: self._waits() == {"clients": "1", "status": "ON"}, _SECONDS)
        self._arrive()

    def promote(self) -> None:
        """Become a server of its own. The primary must be dead."""
        self.execute("STOP SLAVE IO_THREAD")
        wait_until(self._applied, _SECONDS)
        self.execute("STOP SLAVE")
        self.execute("RESET SLAVE ALL")

    def _copy(self) -> None:
        """Begin with a dump, however long the primary has run."""
        with admin(self._primary) as cursor:
            cursor.execute("SHOW DATABASES")
            names = {row["Database"] for row in cursor.fetchall()} - _SYSTEM
        options = ["--single-transaction", "--master-data=1", "--gtid", "--databases"]
        dump = ["mariadb-dump", *_login(self._primary), *options, *sorted(names)]
        load = ["mariadb", *_login(self), "--init-command=SET sql_log_bin = 0"]
        with (self.directory / "dump.sql").open("w+b") as file:
            subprocess.run(dump, stdout=file, check=True)
            file.seek(0)
            subprocess.run(load, stdin=file, check=True)

    def _arrive(self) -> None:
        """Wait until this replica has what the primary has now."""
        position = one(self._primary, "SELECT @@gtid_current_pos AS now")["now"]
        query = f"SELECT MASTER_GTID_WAIT('{position}', {_SECONDS}) AS late"
        if one(self, query)["late"]:
            error = one(self, "SHOW SLAVE STATUS")
            raise TimeoutError(f"the replica did not reach {position} within {_SECONDS} s: {error}")

    def _waits(self) -> dict[str, Any]:
        prefix = "Rpl_semi_sync_master_"
        return {
            name: one(self._primary, f"SHOW GLOBAL STATUS LIKE '{prefix}{name}'")["Value"]
            for name in ("clients", "status")
        }

    def _applied(self) -> bool:
        """Return whether everything that was received is committed here."""
        status = one(self, "SHOW SLAVE STATUS")
        assert not status["Last_SQL_Errno"], status["Last_SQL_Error"]
        return str(status["Slave_SQL_Running_State"]).startswith("Slave has read all relay log")


@contextlib.contextmanager
def admin(server: MariaDB) -> Iterator[Any]:
    """Return a cursor of an administrator; its rows are by column."""
    with (
        pymysql.connect(
            host="127.0.0.1",
            port=server.port,
            user="root",
            autocommit=True,
            connect_timeout=10,
            cursorclass=pymysql.cursors.DictCursor,
        ) as connection,
        connection.cursor() as cursor,
    ):
        yield cursor


def one(server: MariaDB, query: str) -> dict[str, Any]:
    """Return the only row of a query of an administrator, by column."""
    with admin(server) as cursor:
        cursor.execute(query)
        (row,) = cursor.fetchall()
        return dict(row)


def _login(server: MariaDB) -> list[str]:
    return ["--no-defaults", "--host=127.0.0.1", f"--port={server.port}", "--user=root"]
