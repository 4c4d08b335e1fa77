"""Keys: that of the callers is revoked, or has expired, at one agent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

from msgspec.structs import replace

from rtagent.rpc.trust.keys import PublicKey, keys_text, read_keys
from tests.chaos.nemesis.fault import Fault, one_agent
from tests.chaos.world.keys import CALLERS
from tests.chaos.world.world import World


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


FAULTS: list[type[Fault]] = [RevokedKey, ExpiredKey]
