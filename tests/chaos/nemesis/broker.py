"""The broker: its memory alarm, which lets no client publish."""

from __future__ import annotations

from random import Random

from tests.chaos.nemesis.fault import Fault
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


FAULTS: list[type[Fault]] = [MemoryAlarm]
