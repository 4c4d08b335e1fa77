"""A lab host: one emulated hypervisor, from power-on to power-off."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from lab import machine
from lab.channel import connected
from lab.firmware import frequencies
from lab.guest import Done, Guest
from lab.image import Image
from lab.places import CONSOLES
from lab.profile import Profile
from tests.servers import Server

Config = Mapping[str, Mapping[str, object]]


class CommandFailed(Exception):
    """A command in the guest ended with another code than 0."""


class Host(Server):
    """`stop()` and `kill()` are what pulling the plug is; `start()` boots from the same disk."""

    name = "lab"
    start_timeout = 600.0

    def __init__(
        self, hostname: str, profile: Profile, image: Image, broker_port: int, config: Config
    ) -> None:
        """:param broker_port: of this machine's loopback. :param config: of the agent, beside what
        the profile decides."""
        super().__init__()
        self.hostname, self.profile = hostname, profile
        self.guest = Guest(self.directory / "guest.sock")
        self._image, self._broker_port = image, broker_port
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
            *machine.peripherals(self._broker_port),
            *("-acpitable", "file=frequencies.aml"),
            *("-chardev", f"file,id=console,path={self.console},append=on"),
            *("-serial", "chardev:console"),
            *("-smbios", machine.file_at_boot("/etc/rtagent/rtagent.conf", self._config)),
            *("-kernel", str(self._image.kernel), "-initrd", str(self._image.initrd)),
            *("-append", machine.kernel_line(self.profile, self.hostname)),
        ]

    def answers(self) -> bool:
        return (self.directory / "guest.sock").exists() and self.guest.answers()

    # -- the guest --------------------------------------------------------------------------------

    def tell(self, *command: str, timeout: float = 300.0, given: str = "") -> str:
        """What a command prints that must succeed.

        :raises CommandFailed:
        """
        done = self.ask(*command, timeout=timeout, given=given)
        if done.code:
            raise CommandFailed(f"{command} ended with {done.code}: {done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, *command: str, timeout: float = 300.0, given: str = "") -> Done:
        """How a command ends. :param given: its standard input."""
        return self.guest.run(command, timeout, given)

    def wait_served(self, timeout: float = 600.0) -> None:
        """Until systemd says that the agent is up, which is when it said READY=1.

        :raises CommandFailed: it is not; with what systemd says of it.
        """
        start = ["timeout", str(timeout), "systemctl", "start", "rtagent"]
        if self.ask(*start, timeout=timeout + 30).code:
            status = self.ask("systemctl", "status", "--no-pager", "--full", "rtagent")
            raise CommandFailed(f"{self.hostname} does not serve: {status.stdout}")

    # -- the machine ------------------------------------------------------------------------------

    def monitor(self, command: str, **arguments: Any) -> Any:
        """QEMU's answer to a command of its machine protocol."""
        with connected(self.directory / "monitor.sock", 10) as channel:
            channel.receive(10)  # the greeting
            channel.execute("qmp_capabilities", 10)
            return channel.execute(command, 10, arguments)

    def reset(self) -> None:
        """The reset button; returns when the guest answers again."""
        self.monitor("system_reset")
        self._wait()

    def boot_id(self) -> str:
        """The kernel's, another one after each boot."""
        return self.tell("cat", "/proc/sys/kernel/random/boot_id").strip()

    def close(self) -> None:
        """The console's log stays."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def _with(profile: Profile, config: Config) -> str:
    """The agent's configuration file."""
    sets = {
        "cpu_shared_set": profile.cpu_shared_set,
        "cpu_dedicated_set": profile.cpu_dedicated_set,
    }
    groups: dict[str, dict[str, object]] = {
        "DEFAULT": {
            "transport_url": f"rabbit://guest:guest@{machine.BROKER}/",
            "reserved_host_memory_mb": 512,
        },
        # libvirt looks at its emulators when it is first asked: here that takes long.
        "libvirt": {"call_timeout": 60},
        "compute": {name: value for name, value in sets.items() if value},
    }
    for group, options in config.items():
        groups.setdefault(group, {}).update(options)
    return "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
        for group, options in groups.items()
    )
