"""The hypervisor: a simulated host whose file is away, or is not that of a host.

libvirt's test driver runs inside the agent, so there is no libvirtd to kill. An agent finds the
hypervisor unreachable, and callers cannot start or stop domains. The libvirtd of a host with QEMU
is a process, which `processes` breaks.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.chaos.nemesis.fault import Fault
from tests.chaos.world.world import World


class HostFault(Fault):
    """The file of a host is away. It returns at the end as it was."""

    family = "hypervisor"
    name = "unreachable-hypervisor"

    @classmethod
    def applies(cls, world: World) -> bool:
        return bool(world.simulated)

    def begin(self, world: World, random: Random) -> None:
        self.target = random.choice(world.simulated)
        file = self._file(world)
        with _alone(file):
            os.rename(file, _away(file))
            self._replace(file, random)

    def _replace(self, file: Path, random: Random) -> None:
        """Write what is there in place of the file, if anything is."""

    def end(self, world: World) -> None:
        file = self._file(world)
        with _alone(file), contextlib.suppress(FileNotFoundError):  # `begin` has failed
            os.rename(_away(file), file)

    def _file(self, world: World) -> Path:
        return world.agents[self.target].directory / "host.xml"


class GarbledHost(HostFault):
    """The file of a host is replaced by what no hypervisor returns."""

    name = "garbled-hypervisor"

    def _replace(self, file: Path, random: Random) -> None:
        content = random.choice(["", "<node>", "<domain/>", "\x00" * 4096])
        self.details["content"] = content[:20]
        file.write_text(content)


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Lock the directory of a host file, as its editors do: no edit is under way meanwhile.

    An edit that ended between the begin and the end of a fault would be lost.
    """
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def _away(file: Path) -> Path:
    return file.with_name("host.xml.away")
