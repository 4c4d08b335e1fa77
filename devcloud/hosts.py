"""Hosts as namespaces, and the programs on them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import psutil

from devcloud.places import ADDRESS, BIN, HERE, LINK, LINK_HERE, LINK_THERE, LOGS, STATE

#: Seconds in which a program has to start, or to end.
PATIENCE = 240.0
#: What a host has of its own. What it shares with this machine are programs.
PLACES = ("/etc", "/var/lib", "/var/log", "/var/cache")
#: Of root, on a host: what is in this machine's home does not matter there.
_HOME = "/var/lib/root"
ENVIRONMENT = {
    "PATH": f"{STATE}/bin:{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": _HOME,
    "PYTHONWARNINGS": "ignore",
    # libvirt waits for a bus that it finds.
    "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent",
}
_UNSHARE = ("unshare", "--net", "--uts", "--mount", "--propagation", "private", "--pid", "--fork")


class CloudError(Exception):
    """A part of the cloud did not start, or did not do its work. The text says where to look."""


def wait_until(holds: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """:raises CloudError: it does not hold in time."""
    deadline = time.monotonic() + patience
    while not holds():
        if time.monotonic() > deadline:
            raise CloudError(f"not in {patience:.0f} s: {what}")
        time.sleep(0.1)


def check_namespaces() -> None:
    """:raises CloudError: this machine cannot have what the hosts are made of."""
    command = [*_UNSHARE, "--mount-proc", "true"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise CloudError(
            "this kernel or container allows no namespaces (network, mounts, host name and"
            f" processes), of which the hosts are made: {done.stderr.strip()}"
        )
    for place in (*PLACES, "/run"):
        if HERE.is_relative_to(place):
            raise CloudError(f"{HERE.parent}: hosts have a {place} of their own; clone elsewhere")


class Process:
    """A process that a file names, with its time of creation, because numbers are used again."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def pid(self) -> int | None:
        """As this machine sees it; None: it does not run."""
        try:
            pid, created = self._file.read_text().split()
            process = psutil.Process(int(pid))
            if f"{process.create_time():.2f}" != created:
                return None
            return None if process.status() == psutil.STATUS_ZOMBIE else process.pid
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None

    def remember_child(self, of: subprocess.Popen[bytes], what: str) -> None:
        """Write the file, for the only child of a process.

        :raises CloudError: it ended at once.
        """
        children: list[psutil.Process] = []

        def has_child() -> bool:
            if of.poll() is None:
                children[:] = psutil.Process(of.pid).children()
            return bool(children) or of.returncode is not None

        wait_until(has_child, what, 20)
        if not children:
            raise CloudError(f"{what} ended at once")
        self.remember(children[0])

    def remember(self, process: psutil.Process | subprocess.Popen[bytes]) -> None:
        """Write the file."""
        created = psutil.Process(process.pid).create_time()
        self._file.write_text(f"{process.pid} {created:.2f}")

    @property
    def began(self) -> datetime:
        """When it was started, in UTC. It must run."""
        return datetime.fromtimestamp(float(self._file.read_text().split()[1]), UTC)

    def end(self, number: int, what: str) -> None:
        """Send a signal, and wait for the end."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, number)
            wait_until(lambda: self.pid is None, f"end of {what}")


class Host:
    """:ivar directory: what it has of its own, by path. :ivar address: see `places.ADDRESS`."""

    def __init__(self, name: str) -> None:
        self.name, self.directory, self.address = name, STATE / name, ADDRESS[name]
        self._init = Process(self.directory / "init.pid")
        self._processes = self.directory / "processes"

    @property
    def is_on(self) -> bool:
        return self._init.pid is not None

    @property
    def pid(self) -> str:
        """The number of its process 1. :raises CloudError: it has no power."""
        pid = self._init.pid
        if pid is None:
            raise CloudError(f"{self.name} has no power: tools/openstack up")
        return str(pid)

    def path(self, place: str) -> Path:
        """Return where this machine sees a path of the host's, also what lies in its /run."""
        return Path(f"/proc/{self.pid}/root{place}")

    def make(self) -> None:
        """Make its directory, with a copy of this machine's /etc, unless it is there."""
        LOGS.mkdir(parents=True, exist_ok=True)
        if not (self.directory / "etc").exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            shutil.copytree("/etc", self.directory / "new", symlinks=True)
            (self.directory / "new").rename(self.directory / "etc")
            accounts = self.directory / "etc/passwd"
            accounts.write_text(accounts.read_text().replace(":/root:", f":{_HOME}:"))
        for place in (*PLACES, _HOME):
            (self.directory / place[1:]).mkdir(parents=True, exist_ok=True)

    def power_on(self) -> None:
        """Make the namespaces."""
        shutil.rmtree(self._processes, ignore_errors=True)
        self._processes.mkdir()
        ready = self.directory / "ready"
        ready.unlink(missing_ok=True)
        hold = ["/usr/bin/python3", str(HERE / "hold.py"), self.name, str(self.directory), *PLACES]
        outer = self.spawn([*_UNSHARE, "--mount-proc", *hold], LOGS / f"{self.name}.log")
        self._init.remember_child(outer, f"{self.name} (see {LOGS / self.name}.log)")
        wait_until(ready.exists, f"namespaces of {self.name}, see {LOGS / self.name}.log", 20)

    def power_off(self) -> None:
        """End all its processes at once, as a power cut does."""
        self._init.end(9, self.name)

    def enter(self, *command: str | Path) -> list[str]:
        """Return the command with which this machine runs a command on the host."""
        spaces = ("--net", "--uts", "--mount", "--pid")
        return ["nsenter", "-t", self.pid, *spaces, *map(str, command)]

    def run(self, *command: str | Path, env: Mapping[str, str] | None = None) -> str:
        """Run a program to its end, and return its standard output.

        :raises CloudError: it failed.
        """
        done = subprocess.run(
            self.enter(*command),
            env={**ENVIRONMENT, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
            cwd=LOGS,
        )
        if done.returncode:
            line = " ".join(map(str, command))
            output = (done.stdout + done.stderr)[-3000:]
            raise CloudError(f"{self.name}: {line} exited with {done.returncode}:\n{output}")
        return done.stdout

    def daemon(self, name: str, *command: str | Path, env: Mapping[str, str] | None = None) -> None:
        """Start a program, unless it runs. Its log is `log`."""
        if self.is_running(name):
            return
        outer = self.spawn(self.enter(*command), self.log(name), env)
        self.process(name).remember_child(outer, f"{name} (see {self.log(name)})")

    def log(self, name: str) -> Path:
        """Return the log of a daemon."""
        return LOGS / f"{self.name}-{name}.log"

    def spawn(
        self, command: list[str], log: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program of this machine, in a session of its own."""
        with log.open("a") as output:
            return subprocess.Popen(
                command,
                env={**ENVIRONMENT, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=LOGS,
            )

    def process(self, name: str) -> Process:
        """Return the process of a daemon."""
        return Process(self._processes / name)

    def is_running(self, name: str) -> bool:
        return self.process(name).pid is not None

    def daemons(self) -> dict[str, bool]:
        """Return which of its daemons run."""
        files = sorted(self._processes.glob("*")) if self.is_on else []
        return {file.name: self.is_running(file.name) for file in files}

    def stop(self, name: str, number: int) -> None:
        """End a daemon by a signal."""
        self.process(name).end(number, f"{name} on {self.name}")

    def wait_port(self, name: str, port: int, address: str | None = None) -> None:
        """Wait until a daemon listens. :raises CloudError: it ended, or does not in time."""
        probe = f"exec 3<>/dev/tcp/{address or self.address}/{port}"
        command = self.enter("bash", "-c", probe)

        def listens() -> bool:
            if not self.is_running(name):
                raise CloudError(f"{name} on {self.name} has ended: see {self.log(name)}")
            return not subprocess.run(command, check=False, capture_output=True).returncode

        wait_until(listens, f"port {port} of {name}, see {self.log(name)}")

    def connect(self, host: Host) -> None:
        """Lay a cable between this host, the controller, and another one."""
        port = f"to-{host.name}"
        # The other namespaces do not know the number of the process.
        ip = ["nsenter", "-t", self.pid, "--net", "ip", "link"]
        peer = ["peer", "name", "eth0", "netns", host.pid]
        # The kernel may keep a cable for minutes after a host at its other end has lost its power.
        subprocess.run([*ip, "delete", port], check=False, capture_output=True)
        subprocess.run([*ip, "add", port, "type", "veth", *peer], check=True)
        subprocess.run([*ip, "set", port, "master", "br0", "up"], check=True)
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")

    def connect_machine(self) -> None:
        """Lay a cable between this machine and this host, the controller, which forwards nothing.

        :raises CloudError: another cloud, or a network of this machine, is in the way.
        """
        for command in (
            ["link", "add", LINK, "type", "veth", "peer", "name", "machine", "netns", self.pid],
            ["address", "add", f"{LINK_HERE}/30", "dev", LINK],
            ["link", "set", LINK, "up"],
        ):
            done = subprocess.run(["ip", *command], check=False, capture_output=True, text=True)
            if done.returncode:
                raise CloudError(
                    f"ip {' '.join(command)}: {done.stderr.strip()}; is another cloud up, or"
                    f" a network that has {LINK_HERE}?"
                )
        self.run("ip", "address", "add", f"{LINK_THERE}/30", "dev", "machine")
        self.run("ip", "link", "set", "machine", "up")
        route = ["ip", "route", "add", f"{self.address}/32", "via", LINK_THERE, "dev", LINK]
        subprocess.run(route, check=True)


def write_files(directory: Path, files: Mapping[str, str]) -> None:
    """Write files of a host. :param directory: the host's. :param files: by path."""
    for path, text in files.items():
        file = directory / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def free_port() -> int:
    """Return a port of loopback on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
