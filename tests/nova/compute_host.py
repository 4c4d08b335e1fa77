"""A host of the small cloud: rtagent-nova-compute with a libvirtd of its own."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt

from rtagent.api.address import parse
from rtagent.api.client import ReadClient
from rtagent.errors import AgentUnreachable
from tests.servers import Server
from tests.servers.daemon import wait_until
from tests.servers.libvirtd import MigratingLibvirtd
from tests.servers.neutron import ENVIRONMENT, RELEASE

PROGRAMS = ENVIRONMENT / "bin"
#: Before Nova 34 nova-compute has greenlets by default, and compares no domains.
COMPARES = RELEASE == "34"
#: Seconds that a program of Nova's may take to start, and a step of a server.
PATIENCE = 600.0
#: Seconds between two looks at the cloud, which has a part of the CPUs only.
PAUSE = 0.3
#: An address of the loopback interface for migrations. Libvirt refuses 127.0.0.1.
ADDRESS = "127.0.0.2"


class Program(Server):
    """A program of Nova's. :param hostname: that it sees; None: this machine's."""

    name = "nova"
    # Nova waits up to three minutes for its own threads.
    stop_timeout = 2.0

    def __init__(self, program: str, config: Path, hostname: str | None = None) -> None:
        super().__init__()
        self._program, self._config, self._hostname = program, config, hostname

    def prepare(self) -> None:
        """Do nothing: the configuration has been written."""

    def command(self) -> Sequence[str]:
        command = [str(PROGRAMS / self._program), "--config-file", str(self._config)]
        if self._hostname is None:
            return command
        script = f"hostname {self._hostname} && exec {shlex.join(command)}"
        return ["unshare", "--uts", "--mount", "--propagation", "private", "sh", "-c", script]

    def environment(self) -> Mapping[str, str]:
        return {"PYTHONWARNINGS": "ignore"}

    def answers(self) -> bool:
        return True


class ComputeHost:
    """One of several hosts on this machine, between which servers move.

    :param config: where the configuration of its programs will be. :param state: a directory.
    :ivar compute: its nova-compute. :ivar api: the read API of its node.
    """

    def __init__(self, name: str, config: Path, state: Path) -> None:
        self._state = state
        self.libvirtd = MigratingLibvirtd(name, ADDRESS)
        self.compute = Program("rtagent-nova-compute", config, name)
        self.api = ReadClient(parse(str(state / "rtagent/rtagent.sock")))

    def start(self) -> None:
        """Start its programs. Its node is not served yet."""
        self.libvirtd.start()
        self.compute.start()

    def cut_power(self) -> None:
        """End its programs and domains at once. `start` is its return."""
        self.compute.kill()
        self.libvirtd.cut_power()

    def close(self) -> None:
        """Stop everything."""
        self.compute.close()
        self.libvirtd.close()

    def wait_observed(self) -> None:
        """Wait until the node is served, and its domains were compared with its claims, if the
        release compares them.
        """
        wait_until(self._is_observed, PATIENCE, PAUSE)

    def _is_observed(self) -> bool:
        try:
            checks = self.api.get("health")["checks"]
        except AgentUnreachable:
            return False
        return "domains" in checks or not COMPARES

    @contextlib.contextmanager
    def own_copy(self, shared: Path) -> Iterator[None]:
        """Let the host have a copy of a directory that it otherwise shares with the others."""
        own = self._state / shared.name
        shutil.copytree(shared, own)
        self._mount("mount", "--bind", str(own), str(shared))
        try:
            yield
        finally:
            self._mount("umount", "--lazy", str(shared))

    def _mount(self, *command: str) -> None:
        for program in (self.libvirtd, self.compute):
            enter = ["nsenter", f"--mount=/proc/{program.pid}/ns/mnt"]
            subprocess.run([*enter, *command], check=True)

    def claims(self) -> list[Any]:
        """Return the claims of the node."""
        return list(self.api.get("claims")["claims"])

    def differences(self) -> list[Any]:
        """Return the drift and the orphans of the node."""
        return [*self.api.get("drift")["drift"], *self.api.get("orphans")["orphans"]]

    def domains(self) -> dict[str, list[int]]:
        """Return the host CPUs that the vCPUs of each running domain are pinned to, by uuid."""
        return {uuid: pins_of_domain(each) for uuid, each in documents(self.libvirtd.uri).items()}


def documents(uri: str) -> dict[str, ElementTree.Element]:
    """Return the documents of the running domains, by uuid. :param uri: of the hypervisor."""
    connection = libvirt.open(uri)
    found = {}
    try:
        for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
            with contextlib.suppress(libvirt.libvirtError):  # it has ended since
                found[domain.UUIDString()] = ElementTree.fromstring(domain.XMLDesc())
    finally:
        connection.close()
    return found


def pins_of(claim: Any) -> list[int]:
    """Return the host CPUs of a claim."""
    cells = (claim["numa_topology"] or {"cells": ()})["cells"]
    return sorted(cpu for cell in cells for cpu in cell["cpu_pinning"].values())


def pins_of_domain(domain: ElementTree.Element) -> list[int]:
    """Return the host CPUs of a domain's vCPUs. One without a CPU of its own may run on any of
    several, for example "0-1", and is left out.
    """
    sets = (pin.get("cpuset", "") for pin in domain.findall("cputune/vcpupin"))
    return sorted(int(cpus) for cpus in sets if cpus.isdigit())
