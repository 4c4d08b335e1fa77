"""Failover: a replica takes the place of the database server."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.chaos.nemesis.database import FAMILY
from tests.chaos.nemesis.fault import Fault
from tests.chaos.world.mariadb_replica import LoggingMariaDB, MariaDBReplica
from tests.chaos.world.part import ServerPart
from tests.chaos.world.replica import Replica
from tests.chaos.world.world import World
from tests.servers import PostgreSQL


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


FAULTS: list[type[Fault]] = [Failover]
