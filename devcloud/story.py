"""The story: what an operator of OpenStack does, and what rtagent shows beside it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.rule import Rule

from devcloud import accounts, configs, contents
from devcloud.cloud import Cloud
from devcloud.comparison import differences
from devcloud.compute import Compute
from devcloud.hosts import ENVIRONMENT, CloudError, wait_until

#: The names of the story's servers begin with it; others are left alone.
_PREFIX = "story-"
#: Seconds within which Nova does what it is asked.
_PATIENCE = 180.0


class Story:
    """Plays the chapters on a cloud that is up."""

    def __init__(self, cloud: Cloud, console: Console) -> None:
        self._cloud, self._console = cloud, console
        self._api = cloud.connect()
        self._one = cloud.computes[0]

    def play(self) -> None:
        """:raises CloudError: something went otherwise than the story tells."""
        self._clear()
        try:
            self._pinned()
            self._refusal()
            self._moves()
            self._power_cut()
            self._takeover()
            self._accounts()
        finally:
            self._clear()

    def _pinned(self) -> None:
        self._chapter("A server with a CPU of its own")
        self._say("Its flavor has hw:cpu_policy=dedicated. Nova's scheduler chooses a host.")
        self._create("pinned", "pinned")
        host = self._host_of("pinned")
        self._openstack(
            f"--os-compute-api-version 2.87 hypervisor show {host.name} -c hypervisor_hostname"
            " -c state -c vcpus_used -c memory_mb_used"
        )
        self._say(f"What rtagent has recorded on {host.name}, before Nova got an answer:")
        self._rtagent(host, "claim list -c display_name -c state -c memory_mb -c disk_mb")
        self._rtagent(host, "numa show")
        self._say(f"The host map in a browser: {host.page()}")
        self._say("And one that shares CPUs with others, on each host:")
        for compute in self._cloud.computes:
            self._create(f"plain-{compute.name[-1]}", "nano", compute)

    def _refusal(self) -> None:
        self._chapter("A refusal has numbers")
        self._say(
            "Placement knows no huge pages, and a server that names its host passes no filter. The"
            " host decides:"
        )
        self._create("pages", "pages", self._one, status="ERROR")
        fault = self._server("pages").fault["message"]
        self._say("The message of the server's fault:")
        self._console.print(fault, markup=False, highlight=False)
        if "32 pages requested at cell 0" not in fault:
            raise CloudError(f"the refusal has no numbers: {fault}")
        self._openstack(f"server delete --wait {_PREFIX}pages")

    def _moves(self) -> None:
        self._chapter("Resize, cold and live migration")
        server = f"{_PREFIX}pinned"
        before = self._host_of("pinned")
        self._openstack(f"server resize --flavor pinned-large --wait {server}")
        self._openstack(f"server show {server} -c status -c OS-EXT-SRV-ATTR:host")
        self._say("Until the operator confirms, both ends of the move are held:")
        for compute in self._cloud.computes:
            self._rtagent(compute, "claim list -c display_name -c state -c memory_mb")
        self._openstack(f"server resize confirm {server}")
        self._wait("pinned", "ACTIVE")
        if self._host_of("pinned").name == before.name:
            raise CloudError(f"{server} did not leave {before.name}")
        plain = f"{_PREFIX}plain-1"
        self._openstack(f"server migrate --live-migration --wait {plain}")
        self._openstack(f"server show {plain} -c status -c OS-EXT-SRV-ATTR:host")
        self._openstack(f"server migrate --wait {plain}")
        self._openstack(f"server resize confirm {plain}")
        self._wait("plain-1", "ACTIVE")
        for compute in self._cloud.computes:
            self._rtagent(compute, "claim list -c display_name -c state -c memory_mb")
            self._no_drift(compute)

    def _power_cut(self) -> None:
        self._chapter("A host loses its power")
        host = self._host_of("pinned")
        (other,) = (compute for compute in self._cloud.computes if compute is not host)
        self._tool(f"power {host.name} off", host.power_off)
        self._openstack(f"compute service set --down {host.name} nova-compute")
        self._say("Its server with a CPU of its own is evacuated.")
        server = f"{_PREFIX}pinned"
        self._openstack(f"server evacuate {server} -c name -c status")
        self._wait_host("pinned", other)
        self._openstack(f"server start {server}")
        self._wait("pinned", "ACTIVE")
        self._openstack(f"server show {server} -c status -c OS-EXT-SRV-ATTR:host")
        self._rtagent(other, "claim list -c display_name -c state -c memory_mb")
        self._say(f"{host.name} returns. It gives up what was evacuated; what stayed starts again.")
        self._tool(f"power {host.name} on", lambda: self._cloud.power_on(host))
        line = f"openstack compute service set --up {host.name} nova-compute"
        self._console.print(f"$ {line}", style="bold", highlight=False)
        self._cloud.force_down(host, down=False)
        self._cloud.wait_services()
        for name in self._servers_on(host):
            self._openstack(f"server reboot --hard {name}")
            self._wait(name.removeprefix(_PREFIX), "ACTIVE")
        self._rtagent(host, "claim list -c display_name -c state -c memory_mb")
        self._no_drift(host)

    def _takeover(self) -> None:
        self._chapter("Back to plain Nova, and over to rtagent again, with servers running")
        hypervisors = (
            "--os-compute-api-version 2.87 hypervisor list --long -c 'Hypervisor Hostname' -c State"
            " -c 'vCPUs Used' -c 'Memory MB Used'"
        )
        for kind in ("stock", "rtagent"):
            self._tool(f"compute {kind}", lambda kind=kind: self._cloud.set_compute(kind))  # type: ignore[misc]
            self._openstack(hypervisors)
        for compute in self._cloud.computes:
            self._rtagent(compute, "claim list -c display_name -c state -c memory_mb")
            self._no_drift(compute)

    def _accounts(self) -> None:
        self._chapter("The accounts")
        self._say("Read from Nova's database, from Placement's, from libvirt and from rtagent:")
        wait_until(lambda: not differences(accounts.read(self._cloud)), "equal accounts", 60)
        for host in self._cloud.computes:
            for name, account in accounts.read(self._cloud).items():
                servers = account[host.name].values()
                memory = sum(holding.memory_mb or 0 for holding in servers)
                self._console.print(
                    f"{host.name}  {name:9}  {len(servers)} servers, {memory} MB", highlight=False
                )
        self._say("They agree, server by server.")

    def _chapter(self, title: str) -> None:
        self._console.print()
        self._console.print(Rule(title, align="left"))

    def _say(self, sentence: str) -> None:
        self._console.print(sentence, style="italic", highlight=False)

    def _openstack(self, command: str) -> None:
        env = {**ENVIRONMENT, **configs.openrc(self._cloud.controller.password)}
        self._run(f"openstack {command}", ["openstack", *shlex.split(command)], env)

    def _rtagent(self, host: Compute, command: str) -> None:
        line = f"tools/openstack run {host.name} rtagent {command}"
        self._run(line, host.enter("rtagent", *shlex.split(command)), ENVIRONMENT)

    def _run(self, line: str, command: list[str], env: dict[str, str]) -> None:
        self._console.print(f"$ {line}", style="bold", highlight=False, soft_wrap=True)
        done = subprocess.run(
            command,
            env={**env, "COLUMNS": "100", "CLIFF_MAX_TERM_WIDTH": "100"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        for output in done.stdout.splitlines():
            self._console.print(output, markup=False, highlight=False, soft_wrap=True)
        if done.returncode:
            raise CloudError(f"{line} exited with {done.returncode}")

    def _tool(self, words: str, do: Callable[[], None]) -> None:
        self._console.print(f"$ tools/openstack {words}", style="bold", highlight=False)
        do()

    def _create(
        self, name: str, flavor: str, host: Compute | None = None, status: str = "ACTIVE"
    ) -> None:
        place = f" --availability-zone nova:{host.name}" if host else ""
        self._openstack(
            f"server create --flavor {flavor} --image {contents.IMAGES[0]}"
            f" --network {contents.NETWORK}{place} {_PREFIX}{name} -c name -c id"
        )
        self._wait(name, status)

    def _server(self, name: str) -> Any:
        return self._api.compute.find_server(_PREFIX + name, ignore_missing=False, details=True)

    def _host_of(self, name: str) -> Compute:
        host = self._cloud.host(self._server(name).compute_host)
        assert isinstance(host, Compute)
        return host

    def _servers_on(self, host: Compute) -> list[str]:
        return [server.name for server in self._listed() if server.compute_host == host.name]

    def _listed(self) -> list[Any]:
        servers = self._api.compute.servers(name=f"^{_PREFIX}")
        return sorted(servers, key=lambda server: str(server.name))

    def _wait(self, name: str, status: str) -> None:
        def is_there() -> bool:
            server = self._server(name)
            if server.status == "ERROR" != status:
                raise CloudError(f"{server.name} failed: {(server.fault or {}).get('message')}")
            return bool(server.status == status and server.task_state is None)

        wait_until(is_there, f"{_PREFIX}{name} {status}", _PATIENCE)

    def _wait_host(self, name: str, host: Compute) -> None:
        wait_until(
            lambda: (
                self._server(name).compute_host == host.name
                and self._server(name).task_state is None
            ),
            f"{_PREFIX}{name} on {host.name}",
            _PATIENCE,
        )

    def _no_drift(self, host: Compute) -> None:
        """Show that no server has anything else than its claim says."""
        wait_until(lambda: accounts.get(host, "/ready"), f"audit of {host.name}", 90)
        drift = accounts.get(host, "/drift")["drift"]
        self._rtagent(host, "drift list")
        if drift:
            raise CloudError(f"{host.name}: drift: {json.dumps(drift)}")

    def _clear(self) -> None:
        for server in self._listed():
            self._api.compute.delete_server(server)
        wait_until(lambda: not self._listed(), "deletion of the servers", _PATIENCE)


def play(cloud: Cloud) -> None:
    """Start the cloud with rtagent, and play the story.

    :raises CloudError: something went otherwise than the story tells.
    """
    began = time.monotonic()
    cloud.up("rtagent")
    Story(cloud, Console(width=None if os.isatty(1) else 110)).play()
    cloud.say(f"the story took {time.monotonic() - began:.0f} s; the cloud is still up")
