"""The lab world: agents as services of emulated hosts, and everything else on this machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from lab import image, machine
from lab.host import Host
from lab.profile import Profile
from tests.chaos.world.features import LAB
from tests.chaos.world.hosts import lab_config
from tests.chaos.world.lab_parts import (
    LIBVIRTD_SOCKETS,
    LabAgent,
    LabClock,
    LabService,
    ServiceProcess,
)
from tests.chaos.world.link import Link
from tests.chaos.world.part import Agent, Part
from tests.chaos.world.qemu import LONGEST_OUTAGE, Qemu
from tests.chaos.world.world import EMBEDDED, World, login

#: Few CPUs, so that it boots fast. A guest has at most as many as there are of its kind: two.
PROFILE = Profile(
    cores=4, cell_memory_mb=1792, cell_pages=128, cpu_shared_set="0-1", cpu_dedicated_set="2-3"
)


class LabWorld(World):
    """A world whose hosts are lab hosts. :ivar hosts: by name.

    Callers reach the libvirtd of a host through a link, which belongs to no fault.
    """

    # After a boot, an agent grants claims within two minutes on an idle machine only.
    patience = 6
    speed = 0.25

    def __init__(self, directory: Path, seed: int, *, hosts: int = 1) -> None:
        super().__init__(directory, seed, hosts=hosts, database=EMBEDDED, features={LAB})
        self.hosts: dict[str, Host] = {}
        self._libvirtds: dict[str, LabService] = {}

    def start(self) -> Self:
        """Build the image if there is none, boot all hosts at once, and start everything."""
        built = image.build()
        for name in self.names:
            self.hosts[name] = host = self._host(name, built)
            host.launch()
        return super().start()

    @property
    def libvirtds(self) -> Mapping[str, Part]:
        return self._libvirtds

    def agent_database_url(self, host: str, *, direct: bool = True) -> str:
        """Return the SQLAlchemy URL of a new copy of an agent's database."""
        agent = self.agents[host]
        assert isinstance(agent, LabAgent)
        return f"sqlite:///{agent.database()}"

    def _host(self, name: str, built: image.Image) -> Host:
        config = lab_config(name, self.patience)
        endpoint = {"placement": login(f"http://{machine.PLACEMENT}")}
        host = Host(
            name,
            PROFILE,
            built,
            self.link(name, "broker").port,
            _merged(config, self._common(name), endpoint),
            {machine.PLACEMENT: self.link(name, "placement").port},
        )
        self._open.callback(host.close)
        return host

    def _agent(self, name: str) -> Agent:
        host = self.hosts[name]
        host.wait_answers()
        host.open_libvirt()
        host.output("sync")  # the power may be cut
        self.links[name, "libvirt"] = link = Link(host.libvirt_port)
        uri = f"qemu+tcp://127.0.0.1:{link.port}/system"
        self.qemu[name] = Qemu(uri, LONGEST_OUTAGE * self.patience)
        libvirtd = ServiceProcess(host, "libvirtd.service", LIBVIRTD_SOCKETS)
        self._libvirtds[name] = LabService(libvirtd)
        self.clocks[name] = LabClock(host)
        return LabAgent(host, self.directory / name)


def _merged(*configs: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    merged: dict[str, dict[str, object]] = {}
    for config in configs:
        for group, options in config.items():
            merged.setdefault(group, {}).update(options)
    return merged
