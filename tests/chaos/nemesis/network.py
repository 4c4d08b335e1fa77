"""The network: links that are cut, reset, partitioned or slow."""

from random import Random
from typing import ClassVar

from tests.chaos.nemesis.fault import Fault
from tests.chaos.world.keys import CALLERS
from tests.chaos.world.link import Link
from tests.chaos.world.world import World

#: Seconds of delay in each direction. The longer ones are beyond the time limits of calls.
DELAYS = (0.05, 0.5, 3.0)


class LinkFault(Fault):
    """A fault of one client's link to a server, or of all links to it.

    :ivar server: ``broker``, ``database`` or ``placement``.
    """

    server: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self._links: list[Link] = []

    @classmethod
    def applies(cls, world: World) -> bool:
        return cls.server != "database" or world.database is not None

    def begin(self, world: World, random: Random) -> None:
        clients = sorted(
            client
            for client, server in world.links
            if server == self.server
            and client in (*world.agents, *world.schedulers, *world.conductors, CALLERS)
        )
        chosen = random.choice([clients, *([client] for client in clients)])
        self.target = f"{' '.join(chosen)} - {self.server}"
        self._links = [world.link(client, self.server) for client in chosen]
        self._prepare(random)
        for link in self._links:
            self._inject(link)

    def _prepare(self, random: Random) -> None:
        """Draw what is open."""

    def _inject(self, link: Link) -> None:
        raise NotImplementedError

    def end(self, world: World) -> None:
        for link in self._links:
            link.heal()


class Cut(LinkFault):
    """Connections are closed and refused."""

    def _inject(self, link: Link) -> None:
        link.cut()


class Reset(LinkFault):
    """Connections are closed; new ones succeed."""

    def _inject(self, link: Link) -> None:
        link.reset()


class Partition(LinkFault):
    """Connections stay open, and nothing arrives, in one direction or in both.

    At the end what was sent arrives late, or the connections are closed.
    """

    def _prepare(self, random: Random) -> None:
        both = {"to_server": True, "to_client": True}
        self._silent = random.choice(
            [both, {**both, "to_server": False}, {**both, "to_client": False}]
        )
        self._resets = random.random() < 0.5
        self.details |= {**self._silent, "resets": self._resets}

    def _inject(self, link: Link) -> None:
        link.swallow(**self._silent)

    def end(self, world: World) -> None:
        if self.details.get("resets"):
            for link in self._links:
                link.reset()
        super().end(world)


class Slow(LinkFault):
    """Everything arrives later."""

    def _prepare(self, random: Random) -> None:
        self.details["seconds"] = random.choice(DELAYS)

    def _inject(self, link: Link) -> None:
        link.delay(self.details["seconds"])


for _base in (Cut, Reset, Partition, Slow):
    for _server in ("broker", "database", "placement"):
        _name = f"{_base.__name__.lower()}-link-{_server}"
        type(_name, (_base,), {"name": _name, "family": f"link-{_server}", "server": _server})
