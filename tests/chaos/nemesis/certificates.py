"""Certificates: that of one agent has expired, until it is renewed."""

from __future__ import annotations

from random import Random

from tests.chaos.nemesis.fault import Fault, one_agent
from tests.chaos.world.broker import TlsRabbitMQ
from tests.chaos.world.world import World


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


FAULTS: list[type[Fault]] = [ExpiredCertificate]
