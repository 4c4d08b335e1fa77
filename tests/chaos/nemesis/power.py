"""The power of a lab host: it is lost, or the host reboots."""

from random import Random
from typing import ClassVar

from lab.channel import ChannelError
from lab.host import CommandFailed, Host
from tests.chaos.nemesis.fault import POWERLESS, Fault, NotYet, one_agent
from tests.chaos.world.lab import LabWorld
from tests.chaos.world.world import World


class PowerFault(Fault):
    """A fault that ends all processes of a host, domains among them. What was flushed to its disk
    is there after the boot."""

    family = "power"
    excludes: ClassVar[frozenset[str]] = frozenset({"agent", "libvirtd", "clock"})

    def __init__(self) -> None:
        super().__init__()
        self.details = {"lenient": POWERLESS}
        self._boot_id = ""

    @classmethod
    def applies(cls, world: World) -> bool:
        return isinstance(world, LabWorld)

    def begin(self, world: World, random: Random) -> None:
        self.target = one_agent(world, random)
        host = self._host(world)
        self._boot_id = host.boot_id()
        self._begin(host)

    def _begin(self, host: Host) -> None:
        raise NotImplementedError

    def end(self, world: World) -> None:
        """:raises NotYet: the host boots."""
        if not self.target:
            return
        host = self._host(world)
        if not host.running:
            host.launch()
        try:
            booted = host.answers() and host.boot_id() != self._boot_id
        except (ChannelError, CommandFailed, TimeoutError) as exc:
            raise NotYet(f"{self.target}: {exc}") from exc
        if not booted:
            raise NotYet(f"{self.target} boots")
        # A connection to a libvirtd that has ended would wait for its answer for ever.
        world.link(self.target, "libvirt").reset()

    def _host(self, world: World) -> Host:
        assert isinstance(world, LabWorld)
        return world.hosts[self.target]


class PowerLoss(PowerFault):
    """The host is off until the end."""

    name = "power-loss"

    def _begin(self, host: Host) -> None:
        host.kill()


class Reboot(PowerFault):
    """systemd stops everything, and the host boots."""

    name = "reboot"

    def _begin(self, host: Host) -> None:
        # The answer to this command must come before the reboot.
        later = "sleep 2 && systemctl reboot"
        host.output("systemd-run", "--quiet", "--no-block", "sh", "-c", later)
