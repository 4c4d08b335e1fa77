"""Agents: the time of day of a host, the keys that it accepts, and a second agent for its node."""

import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from msgspec.structs import replace

from rtagent.rpc.trust.keys import PublicKey, keys_text, read_keys
from tests.chaos.nemesis.fault import Fault, one_agent
from tests.chaos.world.keys import CALLERS
from tests.chaos.world.world import World
from tests.servers.daemon import Daemon

DAY = 86400


class ClockStep(Fault):
    """The agent's time of day jumps, and jumps back at the end."""

    name = "clock-step"
    family = "clock"

    def begin(self, world: World, random: Random) -> None:
        self.target = one_agent(world, random)
        self.details["seconds"] = seconds = random.choice([DAY, -DAY])
        world.clocks[self.target].step(seconds)

    def end(self, world: World) -> None:
        if self.target:
            world.clocks[self.target].step(0)


class RevokedKey(Fault):
    """The agent refuses every call of the callers; none has an effect."""

    name = "revoked-key"
    family = "keys"

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.keys is not None

    def begin(self, world: World, random: Random) -> None:
        assert world.keys is not None
        self.target = one_agent(world, random)
        spoiled = world.agents[self.target].directory / "spoiled_keys.json"
        keys = read_keys(str(world.keys.files.path))
        spoiled.write_text(keys_text(tuple(self._spoiled(keys))))
        self._read(world, str(spoiled))

    def _spoiled(self, keys: tuple[PublicKey, ...]) -> Iterator[PublicKey]:
        return (key for key in keys if key.name != CALLERS)

    def end(self, world: World) -> None:
        if self.target and world.keys is not None:
            self._read(world, str(world.keys.files.path))

    def _read(self, world: World, keys_file: str) -> None:
        agent = world.local_agent(self.target)
        agent.configure({"rpc": {"keys_file": keys_file}})
        agent.process.reload()


class ExpiredKey(RevokedKey):
    """The key of the callers has expired, by the keys file of the agent."""

    name = "expired-key"

    def _spoiled(self, keys: tuple[PublicKey, ...]) -> Iterator[PublicKey]:
        yesterday = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
        for key in keys:
            expired = {"not_before": yesterday - timedelta(days=1), "not_after": yesterday}
            yield replace(key, **expired) if key.name == CALLERS else key


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
