"""A lab host: one emulated hypervisor, from power-on to power-off."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lab import machine
from lab.channel import connected
from lab.firmware import frequencies
from lab.guest import Done, Guest
from lab.image import Image
from lab.places import CONSOLES
from lab.profile import Profile
from tests.servers import Server
from tests.servers.server import free_port

Config = Mapping[str, Mapping[str, object]]


# The socket unit must be started before the service. Only this machine reaches the network.
_OPEN = """
grep -qx 'auth_tcp = "none"' /etc/libvirt/libvirtd.conf ||
    echo 'auth_tcp = "none"' >> /etc/libvirt/libvirtd.conf
systemctl enable --quiet libvirtd-tcp.socket
systemctl is-active --quiet libvirtd-tcp.socket && exit
systemctl stop libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket
systemctl start libvirtd-tcp.socket libvirtd.socket libvirtd.service
"""


class CommandFailed(Exception):
    """A command on a host ended with another code than 0."""


class Host(Server):
    """A lab host. `stop()` and `kill()` cut its power; `start()` boots from the same disk.

    :ivar libvirt_port: on this machine's loopback interface; see `open_libvirt`.
    """

    name = "lab"
    start_timeout = 600.0

    def __init__(
        self,
        hostname: str,
        profile: Profile,
        image: Image,
        broker_port: int,
        config: Config,
        servers: Mapping[str, int] = MappingProxyType({}),
        disks: Sequence[Path] = (),
    ) -> None:
        """:param broker_port: of the broker, on this machine's loopback interface.
        :param config: options of the agent, added to those of the profile.
        :param servers: the ports of further servers on that interface that the host reaches, by
            address on the host, such as `machine.PLACEMENT`.
        :param disks: raw images that the host only reads, ``/dev/vdb`` and following.
        """
        super().__init__()
        self.hostname, self.profile = hostname, profile
        self.guest = Guest(self.directory / "guest.sock")
        self._image, self._disks = image, disks
        self._servers = {machine.BROKER: broker_port, **servers}
        self.libvirt_port = free_port()
        self._uuid = str(uuid.uuid4())
        self._config = _with(profile, config)
        self.console = CONSOLES / f"{hostname}.log"

    # -- Server -----------------------------------------------------------------------------------

    def prepare(self) -> None:
        CONSOLES.mkdir(parents=True, exist_ok=True)
        self.console.unlink(missing_ok=True)
        frequencies(self.directory, self.profile.cpus)
        disk = ["-f", "qcow2", "-F", "raw", "-b", str(self._image.disk)]
        self.run("qemu-img", "create", "-q", *disk, str(self.directory / "disk.qcow2"))

    def command(self) -> Sequence[str]:
        return [
            *("qemu-system-x86_64", "-name", self.hostname, "-uuid", self._uuid),
            *machine.hardware(self.profile),
            *machine.peripherals(self._servers, self.libvirt_port, self._disks),
            *("-acpitable", "file=frequencies.aml"),
            *("-chardev", f"file,id=console,path={self.console},append=on"),
            *("-serial", "chardev:console"),
            *("-smbios", machine.file_at_boot("/etc/rtagent/rtagent.conf", self._config)),
            *("-kernel", str(self._image.kernel), "-initrd", str(self._image.initrd)),
            *("-append", machine.kernel_line(self.profile, self.hostname)),
        ]

    def answers(self) -> bool:
        return (self.directory / "guest.sock").exists() and self.guest.answers()

    # -- commands ---------------------------------------------------------------------------------

    def output(self, *command: str, timeout: float = 300.0, given: str = "") -> str:
        """Run a command and return its output.

        :raises CommandFailed: it ended with another code than 0.
        """
        done = self.execute(*command, timeout=timeout, given=given)
        if done.code:
            raise CommandFailed(f"{command} ended with {done.code}: {done.stdout}{done.stderr}")
        return done.stdout

    def execute(self, *command: str, timeout: float = 300.0, given: str = "") -> Done:
        """Run a command and return its result. :param given: its standard input."""
        return self.guest.run(command, timeout, given)

    def wait_served(self, timeout: float = 600.0) -> None:
        """Wait until the service is started, which is when the agent sends READY=1.

        :raises CommandFailed: it does not start; with the status that systemd prints.
        """
        start = ["timeout", str(timeout), "systemctl", "start", "rtagent"]
        if self.execute(*start, timeout=timeout + 30).code:
            status = self.execute("systemctl", "status", "--no-pager", "--full", "rtagent")
            raise CommandFailed(f"{self.hostname} is not ready: {status.stdout}")

    def open_libvirt(self) -> None:
        """Make libvirt listen at `libvirt_port`, from now on."""
        self.output("sh", "-c", _OPEN)

    # -- the machine ------------------------------------------------------------------------------

    def monitor(self, command: str, **arguments: Any) -> Any:
        """Execute a command of QEMU's machine protocol; return its result."""
        with connected(self.directory / "monitor.sock", 10) as channel:
            channel.receive(10)  # the greeting
            channel.execute("qmp_capabilities", 10)
            return channel.execute(command, 10, arguments)

    def reset(self) -> None:
        """Reset the machine, and wait until the guest agent answers again."""
        self.monitor("system_reset")
        self.wait_answers()

    def boot_id(self) -> str:
        """Return the Linux kernel's boot id, which differs after each boot."""
        return self.output("cat", "/proc/sys/kernel/random/boot_id").strip()

    def close(self) -> None:
        """Power off and remove the directory. The console log stays."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def _with(profile: Profile, config: Config) -> str:
    """Return the agent's configuration file."""
    sets = {
        "cpu_shared_set": profile.cpu_shared_set,
        "cpu_dedicated_set": profile.cpu_dedicated_set,
    }
    groups: dict[str, dict[str, object]] = {
        "DEFAULT": {
            "transport_url": f"rabbit://guest:guest@{machine.BROKER}/",
            "reserved_host_memory_mb": 512,
        },
        # The first call makes libvirt query its emulators, which takes long on an emulated host.
        "libvirt": {"call_timeout": 60},
        "compute": {name: value for name, value in sets.items() if value},
    }
    for group, options in config.items():
        groups.setdefault(group, {}).update(options)
    return "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
        for group, options in groups.items()
    )
