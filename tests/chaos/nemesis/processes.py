"""Processes: killed as in a power failure, suspended, and restarted by an operator."""

from collections.abc import Mapping
from random import Random
from typing import ClassVar

from tests.chaos.nemesis.fault import Fault
from tests.chaos.world.part import Part
from tests.chaos.world.world import World


class ProcessFault(Fault):
    """A fault of one process. :ivar part: ``agent``, ``scheduler``, ``broker``, ``libvirtd``..."""

    part: ClassVar[str]

    @classmethod
    def applies(cls, world: World) -> bool:
        started = {"agent": True, "scheduler": True, "conductor": bool(world.conductors)}
        return started.get(cls.part) or bool(parts_named(world, cls.part))

    def begin(self, world: World, random: Random) -> None:
        parts = parts_named(world, self.part)
        self.target = random.choice(sorted(parts))
        self._begin(parts[self.target])

    def _begin(self, part: Part) -> None:
        raise NotImplementedError

    def end(self, world: World) -> None:
        if part := parts_named(world, self.part).get(self.target):
            part.process.resume()
            part.process.start()


class Kill(ProcessFault):
    """SIGKILL to the process and its children. It is started again at the end; on a lab host,
    systemd starts it at once."""

    def _begin(self, part: Part) -> None:
        self.details["pid"] = part.process.pid
        part.process.kill()


class Pause(ProcessFault):
    """SIGSTOP to the process and its children, SIGCONT at the end."""

    def _begin(self, part: Part) -> None:
        self.details["pid"] = part.process.pid
        part.process.pause()


class Stop(ProcessFault):
    """A clean end of the process. It is started again at the end."""

    def _begin(self, part: Part) -> None:
        part.process.stop()


def parts_named(world: World, part: str) -> Mapping[str, Part]:
    """Return the parts of a name by their own names."""
    if part == "agent":
        return world.agents
    if part == "scheduler":
        return world.schedulers
    if part == "conductor":
        return world.conductors
    if part == "libvirtd":
        return world.libvirtds
    servers = {"broker": world.broker, "placement": world.placement, "database": world.database}
    server = servers[part]
    return {part: server} if server is not None else {}


for _base in (Kill, Pause, Stop):
    for _part in (
        *("agent", "scheduler", "conductor", "broker", "database", "placement", "libvirtd"),
    ):
        _name = f"{_base.__name__.lower()}-{_part}"
        type(_name, (_base,), {"name": _name, "family": _part, "part": _part})
