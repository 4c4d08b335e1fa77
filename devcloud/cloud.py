"""The cloud: a controller and two compute hosts."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from typing import Any

from devcloud import configs, contents
from devcloud.compute import PROGRAMS, Compute
from devcloud.controller import Controller
from devcloud.hosts import CloudError, Host, check_namespaces, wait_until
from devcloud.places import CLOUD, COMPUTES, GUEST, HERE, LOGS, STATE, VOLUMES

#: Where to look when the hosts do not come up.
_SERVICES = f"the services of the compute hosts, see {LOGS}"


class Cloud:
    """:ivar say: shows one line of progress."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.controller = Controller(_password())
        self.computes = tuple(map(Compute, COMPUTES))

    @property
    def hosts(self) -> tuple[Host, ...]:
        return (self.controller, *self.computes)

    def host(self, name: str) -> Host:
        """:raises CloudError: there is none of this name."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise CloudError(f"no host {name}; there are {', '.join(host.name for host in self.hosts)}")

    def up(self, kind: str | None = None) -> None:
        """Start what does not run.

        :param kind: of `compute.PROGRAMS`; None: what was chosen before.
        :raises CloudError: a part did not start.
        """
        check_namespaces()
        _make_guest()
        _make_stand_ins()
        self.controller.start(self.say)
        self.say("Open vSwitch and libvirt on both compute hosts")
        for host in self.computes:
            host.start(self.controller)
        for host in self.computes:
            host.set_program(kind or host.program)
        self.say("flavors, images and a network")
        contents.make_contents(self.connect())
        programs = sorted({PROGRAMS[host.program] for host in self.computes})
        self.say(f"{' and '.join(programs)} on both compute hosts")
        self.wait_services()

    def set_compute(self, kind: str) -> None:
        """Change the program on both hosts, with all servers running."""
        for host in self.computes:
            host.set_program(kind)
        self.wait_services()

    def wait_services(self) -> None:
        """Wait until both hosts can have servers.

        :raises CloudError: a service has ended, or is not ready in time.
        """
        cloud = self.connect()
        wait_until(lambda: all(self._is_up(cloud, host) for host in self.computes), _SERVICES)
        mapped = "SELECT COUNT(*) FROM nova_api.host_mappings"
        if int(self.controller.query(mapped)) < len(self.computes):
            discover = ("cell_v2", "discover_hosts")
            self.controller.run("nova-manage", "--config-file", "/etc/nova/nova.conf", *discover)
        wait_until(lambda: self._are_all(cloud.compute.hypervisors(), "state", "up"), _SERVICES)
        wait_until(lambda: self._are_all(cloud.network.agents(), "is_alive", True), _SERVICES)

    def _is_up(self, cloud: Any, host: Compute) -> bool:
        if not host.is_running("nova-compute"):
            raise CloudError(f"Nova's service on {host.name} has ended: {host.log('nova-compute')}")
        # A service of before counts as up for a while.
        began = host.process("nova-compute").began.replace(tzinfo=None).isoformat()
        return any(
            service.state == "up" and (service.updated_at or "") > began
            for service in cloud.compute.services(host=host.name, binary="nova-compute")
        )

    def _are_all(self, listed: Iterable[Any], name: str, value: object) -> bool:
        good = [document for document in listed if getattr(document, name) == value]
        return len(good) >= len(self.computes)

    def power_on(self, host: Compute) -> None:
        """Start a host that lost its power, as its machine would do it."""
        host.start(self.controller)
        host.start_program()

    def force_down(self, host: Compute, *, down: bool) -> None:
        """Tell Nova whether the service of a host is down, whatever its reports say.

        :raises CloudError: Nova refuses it. A host from which servers were evacuated is down until
            its service has completed what it knows of that.
        """
        api = self.connect().compute
        (service,) = api.services(host=host.name, binary="nova-compute")
        path = f"/os-services/{service.id}"
        wait_until(
            lambda: api.put(path, json={"forced_down": down}).ok,
            f"Nova knows that {host.name} is {'down' if down else 'up'}",
        )

    def connect(self) -> Any:
        """Return a connection of openstacksdk, as the administrator."""
        return contents.connect(self.controller.password)

    def down(self) -> None:
        """End everything. The data remain."""
        for host in reversed(self.hosts):
            host.power_off()

    def delete(self) -> None:
        """End everything, and delete it, but for the tables that each new cloud starts with."""
        self.down()
        shutil.rmtree(STATE, ignore_errors=True)

    def write_openrc(self) -> str:
        """Write the file that a shell sources, and return its path."""
        file = CLOUD / "openrc"
        lines = (f"export {k}={v}\n" for k, v in configs.openrc(self.controller.password).items())
        file.write_text("".join(lines))
        file.chmod(0o600)
        return str(file)


def _password() -> str:
    """Return the password, which is made once."""
    CLOUD.mkdir(mode=0o700, exist_ok=True)
    file = CLOUD / "password"
    if not file.exists():
        file.write_text(secrets.token_hex(12))
        file.chmod(0o600)
    return file.read_text()


def _make_guest() -> None:
    if GUEST.exists():
        return
    made = CLOUD / "guest.o"
    new = GUEST.with_suffix(".new")
    subprocess.run(["as", str(HERE / "guest.S"), "-o", str(made)], check=True)
    binary = ["-Ttext", "0x7c00", "--oformat", "binary"]
    subprocess.run(["ld", *binary, str(made), "-o", str(new)], check=True)
    made.unlink()
    with new.open("r+b") as disk:
        disk.truncate(1024 * 1024)
    new.rename(GUEST)


#: Programs that stand in for others on the hosts, by name.
_STAND_INS = {
    # Nova, Neutron and Cinder become root by these. Everything is root here.
    "sudo": 'exec env "$@"',
    "cinder-rootwrap": 'shift; exec env "$@"',
    # Volumes are files on a share of NFS, which many kernels do not have. All hosts see this
    # machine's directories, so a mount of the share is one of a directory.
    "mount.nfs": "exit 1",
    "mount": f"""for last; do :; done
case " $* " in
    *" nfs "*) exec /bin/mount --bind {VOLUMES} "$last" ;;
    *) exec /bin/mount "$@" ;;
esac""",
}


def _make_stand_ins() -> None:
    VOLUMES.mkdir(parents=True, exist_ok=True)
    for name, script in _STAND_INS.items():
        file = STATE / "bin" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)


def timed(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that shows lines of progress with the seconds since the first."""
    began = time.monotonic()
    return lambda line: say(f"{time.monotonic() - began:5.0f} s  {line}")
