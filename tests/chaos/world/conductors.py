"""ConductorWorld: a world with conductors, which write the allocations of their servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import NullPool, create_engine, text

from tests.chaos.world.part import Agent, DaemonPart, Part
from tests.chaos.world.world import World, login
from tests.servers.daemon import DaemonProcess

#: Seconds without a beat, after which an operation is taken over: the least that is allowed. The
#: sessions of libvirt's daemons last longer, but simulated hosts have a lock in their place.
TAKEOVER = 1


class ConductorWorld(World):
    """:ivar conductors: their parts, by name. They do not run yet."""

    def __init__(
        self, directory: Path, seed: int, *, hosts: int, database: str | None, conductors: int
    ) -> None:
        super().__init__(directory, seed, hosts=hosts, database=database, features=())
        self._number = conductors

    def start(self) -> ConductorWorld:
        super().start()
        for number in range(1, self._number + 1):
            name = f"conductor-{number}"
            process = DaemonProcess(
                "tests.chaos.conductors", self.directory / name, "none.sock", self._config(name)
            )
            part = DaemonPart(process)
            part.process.arguments = [str(self.seed), str(number)]
            self._open.callback(part.close)
            self.conductors[name] = part
        return self

    @property
    def parts(self) -> list[Part]:
        return [*super().parts, *self.conductors.values()]

    def servers_recorded(self) -> list[Any]:
        """Return the records of all servers, as documents."""
        with create_engine(self._records(), poolclass=NullPool).connect() as connection:
            rows = connection.execute(text("SELECT document FROM servers"))
            return [json.loads(row.document) for row in rows]

    def _agent(self, name: str) -> Agent:
        part = super()._agent(name)
        assert isinstance(part, DaemonPart)
        part.configure({"placement": {"manage_allocations": "no"}})
        return part

    def _scheduler(self, name: str) -> DaemonPart:
        part = super()._scheduler(name)
        part.configure({"placement": self._placement_of(name)})
        return part

    def _records(self) -> str:
        return self.database_url or f"sqlite:///{self.directory}/servers.sqlite"

    def _placement_of(self, client: str) -> dict[str, object]:
        endpoint = f"http://127.0.0.1:{self.link(client, 'placement').port}"
        return {**login(endpoint), "timeout": 5}

    def _config(self, name: str) -> dict[str, dict[str, object]]:
        """Return the options of a conductor."""
        records = self._records()
        if self.database is not None:
            records = self._linked(records, name, "database")
        return {
            "DEFAULT": {
                "host": name,
                "state_path": self.directory / name,
                "transport_url": self._broker_url(name),
            },
            "conductor": {
                "connection": records,
                "host_uri": f"test://{self.directory}/{{host}}/host.xml",
                "host_timeout": 20,
                "operation_timeout": 60,
                "takeover_time": TAKEOVER,
            },
            "placement": {**self._placement_of(name), "manage_allocations": "no"},
            "oslo_messaging_rabbit": {"rabbit_interval_max": 1, "heartbeat_timeout_threshold": 10},
        }
