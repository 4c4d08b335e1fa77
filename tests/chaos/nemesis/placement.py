"""Placement: requests that fail, hang, are executed without an answer, or get a wrong answer."""

import threading
from random import Random
from typing import ClassVar

from tests.chaos.nemesis.fault import Fault
from tests.chaos.world.world import World
from tests.servers import Placement
from tests.servers.http_relay import Fault as Spoiling
from tests.servers.http_relay import HttpRelay

#: How many of the requests are spoiled: one in three, two in three, all.
SHARES = (0.33, 0.66, 1.0)


class _Relay(HttpRelay):
    """Spoils a share of the requests."""

    def __init__(self, url: str, spoiling: Spoiling, share: float, random: Random) -> None:
        super().__init__(url)
        self._spoiling, self._share, self._random = spoiling, share, random
        self._drawing = threading.Lock()

    def take(self, method: str, path: str) -> Spoiling | None:
        with self._drawing:
            return self._spoiling if self._random.random() < self._share else None


class PlacementFault(Fault):
    """Requests go through a relay that spoils some of them. :ivar spoiling: in which way."""

    family = "link-placement"  # the relay takes the place of the links' target
    spoiling: ClassVar[Spoiling]

    def __init__(self) -> None:
        super().__init__()
        self._relay: _Relay | None = None

    def begin(self, world: World, random: Random) -> None:
        server = world.placement.server
        assert isinstance(server, Placement)
        self.target = "placement"
        self.details["share"] = share = random.choice(SHARES)
        self._relay = _Relay(server.url, self.spoiling, share, Random(random.random()))
        _retarget(world, int(self._relay.url.rpartition(":")[2]))

    def end(self, world: World) -> None:
        _retarget(world, world.placement.port)
        if self._relay is not None:
            self._relay.close()


def _retarget(world: World, port: int) -> None:
    for (_, server), link in list(world.links.items()):
        if server == "placement":
            link.retarget(port)


for _word, _spoiling in (
    ("conflicting", Spoiling.CONFLICT),
    ("failing", Spoiling.ERROR),
    ("wrong", Spoiling.NONSENSE),
    ("hanging", Spoiling.HANGING),
    ("unanswering", Spoiling.UNANSWERED),
):
    _name = f"{_word}-placement"
    type(_name, (PlacementFault,), {"name": _name, "spoiling": _spoiling})
