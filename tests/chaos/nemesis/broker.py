"""The broker: its memory alarm, which lets no client publish, and an expired certificate."""

from random import Random

from tests.chaos.nemesis.fault import Fault, one_agent
from tests.chaos.world.broker import TlsRabbitMQ
from tests.chaos.world.world import World
from tests.servers import RabbitMQ

#: The share of the memory from which the alarm is raised; 0 raises it at once.
ALARM, USUAL = "0", "0.4"


class MemoryAlarm(Fault):
    """Connections that publish are blocked: their messages wait in the sockets."""

    name = "memory-alarm-broker"
    family = "broker"

    def begin(self, world: World, random: Random) -> None:
        self.target = "broker"
        _set(world, ALARM)

    def end(self, world: World) -> None:
        _set(world, USUAL)


def _set(world: World, share: str) -> None:
    server = world.broker.server
    assert isinstance(server, RabbitMQ)
    server.control("set_vm_memory_high_watermark", share)


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
