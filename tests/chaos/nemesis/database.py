"""The database: full, read-only, slow, hung, without a free connection, or failing over."""

import contextlib
import time
from random import Random
from typing import Any, ClassVar

import psycopg
import pymysql
from sqlalchemy import Connection, create_engine, text

from tests.chaos.nemesis.fault import Fault, one_agent
from tests.chaos.world.mariadb_replica import LoggingMariaDB, MariaDBReplica
from tests.chaos.world.part import ServerPart
from tests.chaos.world.replica import Replica, configure
from tests.chaos.world.world import World
from tests.servers import MariaDB, PostgreSQL

FAMILY = "database"


class ServerFault(Fault):
    """A fault that is caused by settings and statements of a database server.

    :ivar kinds: of databases that can have it.
    """

    family = FAMILY
    kinds: ClassVar[tuple[str, ...]] = ("postgresql", "mariadb")

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.database_kind in cls.kinds

    def begin(self, world: World, random: Random) -> None:
        assert world.database is not None
        self.target = world.database_kind
        self._set(world.database.server, True)

    def end(self, world: World) -> None:
        assert world.database is not None
        world.database.process.start()
        self._set(world.database.server, False)

    def _set(self, server: Any, spoiled: bool) -> None:
        raise NotImplementedError


class ReadOnly(ServerFault):
    """Every write is refused: the server is a replica, or its operator locked it."""

    name = "read-only-database"

    def _set(self, server: Any, spoiled: bool) -> None:
        if isinstance(server, PostgreSQL):
            configure(server, default_transaction_read_only="on" if spoiled else None)
        else:
            server.execute(f"SET GLOBAL read_only = {'ON' if spoiled else 'OFF'}")


class SlowCommits(ServerFault):
    """Each commit takes 100 ms longer."""

    name = "slow-commits"
    kinds = ("postgresql",)

    def _set(self, server: Any, spoiled: bool) -> None:
        slow = {"commit_delay": "100000", "commit_siblings": "0"}
        configure(server, **(slow if spoiled else dict.fromkeys(slow)))


class HungCommits(ServerFault):
    """Commits are durable, but are not answered before the end: their outcome is unknown."""

    name = "hung-commits"
    kinds = ("postgresql",)

    def _set(self, server: Any, spoiled: bool) -> None:
        configure(server, synchronous_standby_names="chaos_absent" if spoiled else None)


class LockedTables(Fault):
    """Another client has the only right to write: a backup of MariaDB, or a reader of SQLite's
    file that was forgotten."""

    name = "locked-database"
    family = FAMILY

    def __init__(self) -> None:
        super().__init__()
        self._connections = contextlib.ExitStack()

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.database_kind in ("mariadb", "sqlite")

    def begin(self, world: World, random: Random) -> None:
        host = one_agent(world, random)
        self.target = world.database_kind if world.database else host
        engine = create_engine(world.agent_database_url(host), isolation_level="AUTOCOMMIT")
        self._connections.callback(engine.dispose)
        connection: Connection = self._connections.enter_context(engine.connect())
        order = "FLUSH TABLES WITH READ LOCK" if world.database else "BEGIN IMMEDIATE"
        connection.execute(text(order))

    def end(self, world: World) -> None:
        self._connections.close()


class NoFreeConnection(Fault):
    """Other clients have every connection that the server accepts."""

    name = "connection-limit"
    family = FAMILY

    def __init__(self) -> None:
        super().__init__()
        self._taken: list[Any] = []

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.database is not None

    def begin(self, world: World, random: Random) -> None:
        assert world.database is not None
        self.target, server = world.database_kind, world.database.server
        if isinstance(server, MariaDB):
            server.execute("SET GLOBAL max_connections = 10")
        _disconnect(world)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._take(server):
            pass
        self.details["taken"] = len(self._taken)

    def _take(self, server: Any) -> bool:
        """Take one more connection. Return whether there may be another."""
        try:
            if isinstance(server, PostgreSQL):
                self._taken.append(
                    psycopg.connect(
                        f"host=127.0.0.1 port={server.port} user=rtagent dbname=postgres"
                    )
                )
            else:
                self._taken.append(pymysql.connect(host="127.0.0.1", port=server.port, user="root"))
        except (psycopg.OperationalError, pymysql.err.OperationalError):
            return False
        return True

    def end(self, world: World) -> None:
        assert world.database is not None
        for connection in self._taken:
            with contextlib.suppress(psycopg.Error, pymysql.err.Error):
                connection.close()
        server = world.database.server
        if isinstance(server, MariaDB):
            server.execute("SET GLOBAL max_connections = 151")


def _disconnect(world: World) -> None:
    """Close the connections of every client, which then need new ones."""
    for (_, server), link in list(world.links.items()):
        if server == "database":
            link.reset()


class DiskFull(Fault):
    """The file system of the database has no free space. A server that this has killed is started
    again at the end."""

    name = "disk-full"
    family = FAMILY

    @classmethod
    def applies(cls, world: World) -> bool:
        return bool(world.volumes)

    def begin(self, world: World, random: Random) -> None:
        self.target = random.choice(sorted(world.volumes))
        world.volumes[self.target].fill()

    def end(self, world: World) -> None:
        if self.target:
            world.volumes[self.target].clear()
        if world.database is not None:
            world.database.process.ensure_running()


class Failover(Fault):
    """The server is killed while it is written to; a replica, without which it acknowledged
    nothing, is promoted at the end. Nothing that was acknowledged is lost.
    """

    name = "failover"
    family = FAMILY

    def __init__(self) -> None:
        super().__init__()
        self._replica: Replica | MariaDBReplica | None = None

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.database is not None

    def begin(self, world: World, random: Random) -> None:
        assert world.database is not None
        primary = world.database.server
        self.target = world.database_kind
        replica = _replica(primary)
        world.add_replica(replica)
        replica.follow()
        self._replica = replica
        self.details |= {"from": primary.port, "to": replica.port}
        world.database.process.kill()

    def end(self, world: World) -> None:
        assert world.database is not None
        if self._replica is None:
            world.database.process.start()
            return
        self._replica.promote()
        world.replace_database(ServerPart(self._replica))


def _replica(primary: Any) -> Replica | MariaDBReplica:
    if isinstance(primary, PostgreSQL):
        return Replica(primary)
    assert isinstance(primary, LoggingMariaDB)
    return MariaDBReplica(primary)
