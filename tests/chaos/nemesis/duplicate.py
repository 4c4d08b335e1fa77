"""Duplicates: a second agent for a node, as after a machine was cloned."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random

from tests.chaos.nemesis.fault import Fault, one_agent
from tests.chaos.world.world import World
from tests.servers.daemon import Daemon


class DuplicateAgent(Fault):
    """An agent with the configuration, the name and the identity of another one is started in a
    directory of its own. It must not be granted the node while the other one lives.
    """

    name = "duplicate-agent"
    family = "agent"

    def __init__(self) -> None:
        super().__init__()
        self._daemon: Daemon | None = None

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.database is not None

    def begin(self, world: World, random: Random) -> None:
        self.target = one_agent(world, random)
        original = world.local_agent(self.target)
        directory = Path(tempfile.mkdtemp(prefix="clone-", dir=world.directory))
        for file in ("compute_id", "host.xml", "host.xml.capabilities"):
            if (original.directory / file).exists():
                shutil.copy(original.directory / file, directory / file)
        url = world.agent_database_url(self.target, direct=False)
        broker = str(original.config["DEFAULT"]["transport_url"])
        theirs = {"state_path", "lock_path", "instances_path"}
        config = {
            group: {name: value for name, value in options.items() if name not in theirs}
            for group, options in original.config.items()
        }
        self._daemon = Daemon(
            directory,
            broker,
            database_url=url,
            uri=str(original.config["libvirt"]["connection_uri"]),
            config=config,
        )
        self._daemon.start()
        self.details["pid"] = self._daemon.pid

    def end(self, world: World) -> None:
        if self._daemon is not None:
            self.details["exit_code"] = self._daemon.exit_code  # None: it was waiting
            self._daemon.close()


FAULTS: list[type[Fault]] = [DuplicateAgent]
