"""Deployments: a database and a host, on which an agent is started again and again."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import oslo_messaging
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.transport import get_transport
from rtagent.testing.failpoints import VARIABLE
from rtagent.virt.simulate import Machine, domain_xml, edit, simulate
from tests.servers import MariaDB, PostgreSQL
from tests.servers.daemon import Config, Daemon, DaemonFailed, wait_until
from tests.servers.proxy import Proxy

#: Seconds after which a test fails instead of waiting on.
PATIENCE = 180.0

CONTEXT = RequestContext(user_id="caller", roles=["operator"], overwrite=False)

#: (vcpus, memory_mb) by uuid.
Domains = Mapping[str, tuple[int, int]]


class Home(Protocol):
    """A deployment.

    :ivar host: its name. :ivar vcpus: how many vCPUs it may grant. :ivar kills: so far.
    """

    url: str
    host: str
    vcpus: int
    kills: int

    def start(self, failpoint: str = "") -> bool:
        """Start the agent and wait until it grants; False: the failpoint killed it before."""
        ...

    def invoke(self, method: str, **document: Any) -> Any: ...

    def ask(self, method: str, **document: Any) -> Any:
        """Call without a retry: a call that kills the agent must not reach the next one."""
        ...

    def set_domains(self, domains: Domains) -> None:
        """Run exactly these domains; the next audit sees them, without being requested."""
        ...

    def wait_policy(self) -> None:
        """Wait until the agent has written the policy that it started with."""
        ...

    def set_reserve(self, memory_mb: int) -> None:
        """Reserve so much memory for the host, soon or from the next start on."""
        ...

    def kill(self) -> None: ...

    def wait_died(self) -> None:
        """Wait until the failpoint has killed the agent."""
        ...

    def close(self) -> None: ...


class DaemonHome:
    """Deployment of a real daemon, called over RabbitMQ.

    :ivar proxy: between it and its database server; None without ``proxied`` or a server.
    """

    def __init__(
        self,
        directory: Path,
        transport: oslo_messaging.RPCTransport,
        server: PostgreSQL | MariaDB | None,
        *,
        proxied: bool = False,
        vcpus: int = 64,
        uri: str | None = None,
        config: Config | None = None,
        timeout: float = 3,
        attempts: int = 5,
    ) -> None:
        """:param transport: for calls.
        :param server: of its database; None: SQLite.
        :param vcpus: how many vCPUs the host may grant; a simulated host (no ``uri``) has as many
            CPUs.
        :param timeout: and ``attempts``: of `AgentAPI`.
        """
        directory.mkdir()
        name = self.host = f"host-{uuid.uuid4()}"
        cpus = os.cpu_count() or 1
        if uri is None:
            cpus = vcpus
            machine = Machine(sockets=1, cores=cpus, threads=1, hostname=name)
            simulate(directory / "host.xml", machine)
        self.vcpus, self.kills = vcpus, 0
        self.proxy = Proxy(server.port) if server is not None and proxied else None
        self.url = f"sqlite:///{directory}/rtagent.sqlite"
        theirs: str | None = None
        if server is not None:
            self.url = migrated(server.create_database())
            theirs = self.proxy.url(self.url) if self.proxy is not None else self.url
        self._domains: Domains = {}
        self.daemon = Daemon(directory, transport.conf.transport_url, database_url=theirs, uri=uri)
        self.daemon.configure(
            {
                "DEFAULT": {
                    "host": name,
                    "cpu_allocation_ratio": vcpus / cpus,
                    "reserved_host_memory_mb": 0,
                    # No periodic audit, only those that events cause.
                    "update_resources_interval": -1,
                    "report_interval": 3600,
                    "service_down_time": 7200,
                },
                "database": {"operation_timeout": 2},
            }
        )
        self.daemon.configure(config or {})
        self._agent = AgentAPI(transport, self.daemon.host, timeout=timeout, attempts=attempts)
        self._once = AgentAPI(transport, self.daemon.host, timeout=timeout, attempts=1)

    def start(self, failpoint: str = "") -> bool:
        self.daemon.start(**({VARIABLE: failpoint} if failpoint else {}))
        try:
            self.daemon.wait_ready(PATIENCE)
        except DaemonFailed:
            if self.daemon.exit_code != -signal.SIGKILL:
                raise
            self.kills += 1
            return False
        return True

    def invoke(self, method: str, **document: Any) -> Any:
        return getattr(self._agent, method)(CONTEXT, **document)

    def ask(self, method: str, **document: Any) -> Any:
        return getattr(self._once, method)(CONTEXT, **document)

    def set_domains(self, domains: Domains) -> None:
        with edit(self.daemon.host_file) as world:
            for gone in self._domains.keys() - domains.keys():
                world.remove_domain(gone)
            for new in domains.keys() - self._domains.keys():
                vcpus, memory_mb = domains[new]
                world.add_domain(domain_xml(new, vcpus=vcpus, memory_mb=memory_mb))
        self._domains = dict(domains)

    def set_reserve(self, memory_mb: int) -> None:
        self.daemon.configure({"DEFAULT": {"reserved_host_memory_mb": memory_mb}})
        if self.daemon.running:
            self.daemon.reload()

    def wait_policy(self) -> None:
        """Wait until the agent has written the policy that it started with.

        It looks at the policy again and again. Of two looks after the start, the second begins
        after the first audit, before which the policy is not written.
        """

        def looks() -> float:
            name = 'rtagent_lock_hold_seconds_count{purpose="policy"}'
            return self.daemon.metrics().get(name, 0)

        before = looks()
        wait_until(lambda: looks() >= before + 2, PATIENCE)

    def kill(self) -> None:
        self.daemon.kill()
        self.kills += 1

    def wait_died(self) -> None:
        assert self.daemon.wait(PATIENCE) == -signal.SIGKILL
        self.kills += 1

    def close(self) -> None:
        if self.daemon.running:
            self.daemon.kill()
        self.daemon.close()
        if self.proxy is not None:
            self.proxy.close()


def open_transport(
    url: str, rpc: Mapping[str, object] = MappingProxyType({}), **rabbit: object
) -> oslo_messaging.RPCTransport:
    """Open a transport for callers of daemons on that broker. Its cleanup takes seconds.

    :param rpc: options of that group. :param rabbit: of ``[oslo_messaging_rabbit]``.
    """
    conf = cfg.ConfigOpts()
    conf([], project="rtagent", default_config_files=[])
    transport = get_transport(conf, url)
    conf.set_override("transport_url", url)
    for group, options in (("rpc", rpc), ("oslo_messaging_rabbit", rabbit)):
        for name, value in options.items():
            conf.set_override(name, value, group=group)
    return transport


def migrated(url: str) -> str:
    """Create the schema in a database; return its URL."""
    engine = open_engine(url, 30)
    migrate.sync(engine)
    engine.dispose()
    return url
