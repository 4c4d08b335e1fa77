"""Homes: a database, a host, and an agent that is started there again and again."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import uuid
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.rpc.client import AgentAPI
from rtagent.virt.simulate import Machine, domain_xml, edit, simulate
from tests.crash.child import VCPUS, Domains, live
from tests.servers import MariaDB, PostgreSQL
from tests.servers.daemon import Daemon, DaemonFailed
from tests.servers.proxy import Proxy
from tests.stream.caller import Lost

#: Seconds; nothing here takes that long.
PATIENCE = 60.0


CONTEXT = RequestContext(user_id="caller", overwrite=False)


class Home(Protocol):
    """:ivar vcpus: how many the host may promise. :ivar kills: so far."""

    url: str
    vcpus: int
    kills: int

    def start(self, failpoint: str = "") -> bool:
        """Start the agent and wait until it grants; False: it died of the failpoint before."""
        ...

    def invoke(self, method: str, **document: Any) -> Any: ...

    def set_domains(self, domains: Domains) -> None:
        """These run, no others; seen at the next audit, which need not be asked for."""
        ...

    def set_reserve(self, memory_mb: int) -> None:
        """A policy that keeps so much back, in force soon, or from the next start on."""
        ...

    def kill(self) -> None: ...

    def wait_died(self) -> None:
        """Until it has died of its failpoint."""
        ...

    def close(self) -> None: ...


# A server that has imported everything forks each child: a life costs milliseconds.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["pytest", "tests.crash.child"])


class ChildHome:
    """An agent without a bus (`child`)."""

    vcpus = VCPUS

    def __init__(self, directory: Path, url: str) -> None:
        self.url, self.kills = url, 0
        self._directory, self._domains, self._reserve = directory, Domains(), 0
        self._life: _Life | None = None

    def start(self, failpoint: str = "") -> bool:
        self._life = _Life(self.url, str(self._directory), failpoint, self._domains, self._reserve)
        try:
            self._life.started.result(PATIENCE)
        except Lost:
            self.kills += 1
            return False
        return True

    def invoke(self, method: str, **document: Any) -> Any:
        if self._life is None:
            raise Lost
        return self._life.ask(method, document).result(PATIENCE)

    def set_domains(self, domains: Domains) -> None:
        self._domains = domains
        self.invoke("set_domains", domains=domains)

    def set_reserve(self, memory_mb: int) -> None:
        self._reserve = memory_mb
        if self._life is not None and self._life.process.is_alive():
            self.invoke("set_reserve", memory_mb=memory_mb)

    def kill(self) -> None:
        assert self._life is not None
        os.kill(self._life.process.pid, signal.SIGKILL)
        self.wait_died()

    def wait_died(self) -> None:
        assert self._life is not None
        self._life.process.join(PATIENCE)
        assert self._life.process.exitcode == -signal.SIGKILL
        self._life.ended.wait(PATIENCE)
        self.kills += 1

    def close(self) -> None:
        if self._life is not None and self._life.process.is_alive():
            self.kill()


class _Life:
    """One process, and the calls that it has not answered yet."""

    def __init__(self, *arguments: Any) -> None:
        self._pipe, theirs = _processes.Pipe()
        self.process = _processes.Process(target=live, args=(theirs, *arguments), daemon=True)
        self._numbers = itertools.count(1)
        self.started: Future[Any] = Future()
        self.ended = threading.Event()
        self._asked = {0: self.started}
        self._lock = threading.Lock()
        self.process.start()
        theirs.close()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self, order: str, document: dict[str, Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            if self.ended.is_set():
                raise Lost
            self._asked[number] = future
            try:
                self._pipe.send((number, order, document))
            except OSError as error:
                raise Lost from error
        return future

    def _listen(self) -> None:
        while (told := _received(self._pipe)) is not None:
            number, kind, *rest = told
            with self._lock:
                future = self._asked.pop(number)
            if kind == "answer":
                future.set_result(rest[0])
            elif kind == "error":
                future.set_exception(rest[0](**rest[1]))
            else:
                future.set_exception(AssertionError(rest[0]))
        with self._lock:
            self.ended.set()
            asked, self._asked = self._asked, {}
        for future in asked.values():
            future.set_exception(Lost())


def _received(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None


class DaemonHome:
    """A real daemon, called over RabbitMQ.

    :ivar proxy: between it and its database's server, if it has one and that was asked for.
    """

    def __init__(
        self,
        directory: Path,
        transport: oslo_messaging.RPCTransport,
        server: PostgreSQL | MariaDB | None,
        *,
        proxied: bool = False,
        vcpus: int = 64,
    ) -> None:
        """:param transport: for calls. :param server: of its database; None: the embedded one."""
        directory.mkdir()
        simulate(directory / "host.xml", Machine(sockets=1, cores=vcpus, threads=1))
        self.vcpus, self.kills = vcpus, 0
        self.proxy = Proxy(server.port) if server is not None and proxied else None
        self.url, theirs = f"sqlite:///{directory}/rtagent.sqlite", None
        if server is not None:
            self.url = migrated(server.create_database())
            theirs = self.proxy.url(self.url) if self.proxy is not None else self.url
        self._domains = Domains()
        self.daemon = Daemon(directory, transport.conf.transport_url, database_url=theirs)
        self.daemon.configure(
            {
                "DEFAULT": {
                    "host": f"agent-{uuid.uuid4()}",
                    "cpu_allocation_ratio": 1.0,
                    "reserved_host_memory_mb": 0,
                    # Nothing by itself, but what follows from an event.
                    "update_resources_interval": -1,
                    "report_interval": 3600,
                    "service_down_time": 7200,
                },
                "database": {"operation_timeout": 2},
            }
        )
        self._agent = AgentAPI(transport, self.daemon.host, timeout=3, attempts=3)

    def start(self, failpoint: str = "") -> bool:
        self.daemon.start(**({"RTAGENT_FAILPOINT": failpoint} if failpoint else {}))
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


def migrated(url: str) -> str:
    """The same database, with the schema."""
    engine = open_engine(url, 30)
    migrate.sync(engine)
    engine.dispose()
    return url
