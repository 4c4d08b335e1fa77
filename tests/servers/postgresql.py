"""A PostgreSQL server."""

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import psycopg

from tests.servers.server import Server, as_user, free_port


class PostgreSQL(Server):
    """A PostgreSQL server; `create_database()` returns the URL of an empty database."""

    name = "postgresql"
    stop_signal = signal.SIGINT  # SIGTERM would wait for the clients to disconnect

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        self._data = self.directory / "data"

    def prepare(self) -> None:
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(self._data, "postgres", "postgres")
        self.run(
            *as_user("postgres"),
            _program("initdb"),
            f"--pgdata={self._data}",
            "--username=rtagent",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
        )

    def command(self) -> Sequence[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [*as_user("postgres"), _program("postgres"), "-D", str(self._data), *options]

    def answers(self) -> bool:
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database."""
        return f"postgresql+psycopg://rtagent@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """Create an empty database with a new name, and return its URL."""
        name = f"test_{uuid4().hex}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str) -> None:
        """Execute one statement as administrator, outside any transaction."""
        with self._connect() as connection:
            connection.execute(statement.encode())

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="rtagent",
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        )


def _program(name: str) -> str:
    """The newest installed version of a program, which Debian does not have on PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else name
