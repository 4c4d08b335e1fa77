"""The broker: its memory alarm, which lets no client publish, and an expired certificate."""

from random import Random

from tests.chaos.nemesis.fault import Fault, one_agent
from tests.chaos.world.broker import TlsRabbitMQ
from tests.chaos.world.world import World
from tests.servers import RabbitMQ


class MemoryAlarm(Fault):
    """Connections that publish are blocked: their messages wait in the sockets."""

    name = "memory-alarm-broker"
    family = "broker"

    def begin(self, world: World, random: Random) -> None:
        self.target = "broker"
        _alarm(world, True)

    def end(self, world: World) -> None:
        _alarm(world, False)


def _alarm(world: World, raised: bool) -> None:
    server = world.broker.server
    assert isinstance(server, RabbitMQ)
    server.alarm(raised)


class ExpiredCertificate(Fault):
    """The broker refuses the agent's new connections; those that were open are closed."""

    name = "expired-certificate"
    family = "certificates"

    @classmethod
    def applies(cls, world: World) -> bool:
        return isinstance(world.broker.server, TlsRabbitMQ)

    def begin(self, world: World, random: Random) -> None:
        self.target = one_agent(world, random)
        assert isinstance(world.broker.server, TlsRabbitMQ)
        world.broker.server.expire(self.target)
        world.link(self.target, "broker").reset()

    def end(self, world: World) -> None:
        assert isinstance(world.broker.server, TlsRabbitMQ)
        if self.target:
            world.broker.server.renew(self.target)
