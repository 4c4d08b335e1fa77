"""A MariaDB server."""

import os
import shutil
from collections.abc import Sequence
from uuid import uuid4

import pymysql

from tests.servers.server import Server, free_port


class MariaDB(Server):
    """A MariaDB server; `create_database()` returns the URL of an empty database."""

    name = "mariadb"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        self._data = self.directory / "data"
        # A server that starts removes the temporary tables of others in a common directory.
        self._temporary = self.directory / "tmp"

    def prepare(self) -> None:
        for directory in (self._data, self._temporary):
            directory.mkdir(mode=0o700)
            if os.geteuid() == 0:
                shutil.chown(directory, "mysql", "mysql")
        self.run(
            "mariadb-install-db",
            "--no-defaults",
            *_user(),
            f"--datadir={self._data}",
            f"--tmpdir={self._temporary}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )

    def command(self) -> Sequence[str]:
        return [
            "/usr/sbin/mariadbd",
            "--no-defaults",
            *_user(),
            f"--datadir={self._data}",
            f"--tmpdir={self._temporary}",
            f"--socket={self._data}/socket",
            f"--pid-file={self._data}/pid",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--connect-timeout=60",  # by default a busy machine has 10 seconds for a handshake
            "--character-set-server=utf8mb4",
        ]

    def answers(self) -> bool:
        try:
            self._connect().close()
        except pymysql.err.OperationalError:
            return False
        return True

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database."""
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """Create an empty database with a new name, and return its URL."""
        name = f"test_{uuid4().hex}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str) -> None:
        """Execute one statement as administrator."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def _connect(self) -> pymysql.Connection:
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", autocommit=True, connect_timeout=5
        )


def _user() -> list[str]:
    return ["--user=mysql"] if os.geteuid() == 0 else []
