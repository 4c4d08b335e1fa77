"""Fleet: servers, two schedulers, and the agents of many hosts."""

from __future__ import annotations

import contextlib
import threading
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from benchmarks.fleet.agent_process import AgentProcess, HostView
from benchmarks.fleet.host import FleetHost, Intervals, Servers
from benchmarks.fleet.process import RemoteProcess
from benchmarks.fleet.servers import FleetPlacement, FleetPostgreSQL, FleetRabbitMQ
from rtagent.conf.scheduler import DEFAULT_FILTERS
from rtagent.db import migrate
from rtagent.db.engine import open_engine
from tests.servers import MariaDB
from tests.servers.daemon import SchedulerServer

T = TypeVar("T")

#: The most agents of one process: its threads wait for one lock of the interpreter, and the more
#: of them wait, the more CPU time that costs.
PER_PROCESS = 25
SCHEDULERS = ("scheduler-1", "scheduler-2")
#: Those of a cloud whose guests have CPUs of their own.
FIT_FILTERS = (*DEFAULT_FILTERS, "NUMATopologyFilter")


class Fleet:
    """From `__enter__`, the servers and the schedulers run. `prepare` makes the agents, and `start`
    starts them.

    :ivar names: of the hosts. :ivar places: where the servers listen.
    :ivar schedulers: two processes. :ivar processes: with the agents. :ivar intervals: of all.
    """

    def __init__(self, directory: Path, hosts: int, intervals: Intervals) -> None:
        """:param directory: of everything; it exists."""
        self.directory, self.intervals = directory, intervals
        self.names = [f"host-{number:05}" for number in range(hosts)]
        self.rabbitmq, self.postgresql = FleetRabbitMQ(), FleetPostgreSQL()
        self.mariadb, self.placement = MariaDB(), FleetPlacement()
        self.places: Servers
        self.schedulers: list[SchedulerServer] = []
        self.processes: list[RemoteProcess[AgentProcess]] = []
        self._process_of: dict[str, AgentProcess] = {}
        self._open = ExitStack()

    # -- start and stop ----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with ExitStack() as failed:
            failed.callback(self._open.close)
            servers = (self.rabbitmq, self.postgresql, self.mariadb)
            for server in (*servers, self.placement):
                self._open.callback(server.close)
            with ThreadPoolExecutor(len(servers)) as pool:
                list(pool.map(lambda server: server.start(), servers))
            self.placement.use(self.mariadb.create_database())
            self.placement.start()
            self._make_database()
            for name in SCHEDULERS:
                self._start_scheduler(name)
            failed.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def prepare(self) -> None:
        """Make the processes of the agents, which read their configurations."""
        hosts = [FleetHost(name, self.directory / name) for name in self.names]
        for host in hosts:
            host.configure(self.places, self.intervals)
        groups = [hosts[n : n + PER_PROCESS] for n in range(0, len(hosts), PER_PROCESS)]
        for number, group in enumerate(groups):
            log = self.directory / f"agents-{number}.log"
            process = RemoteProcess(AgentProcess, log)
            self._open.callback(process.close)
            self.processes.append(process)
            self._process_of.update((host.name, process.proxy) for host in group)
        with ThreadPoolExecutor(len(groups)) as pool:
            list(pool.map(lambda each, group: each.proxy.prepare(group), self.processes, groups))

    def start(self, at_once: int) -> None:
        """Start all agents. Returns at once.

        :param at_once: agents that start at the same moment. When one has caught up, the next
            starts.
        """
        threading.Thread(target=self._start_agents, args=(at_once,), daemon=True).start()

    def stop(self) -> None:
        """Stop all agents, as at SIGTERM."""
        self.each(lambda process: process.stop())

    def change(self) -> None:
        """Make a domain without a claim appear on each host; the next call removes it. Takes some
        two seconds for each host of a process.
        """
        self.each(lambda process: process.change())

    # -- what it shows -----------------------------------------------------------------------------

    def each(self, call: Callable[[AgentProcess], T]) -> list[T]:
        """Call something on every process of agents at once."""
        with ThreadPoolExecutor(max(1, len(self.processes))) as pool:
            return list(pool.map(lambda process: call(process.proxy), self.processes))

    def agents_of(self, host: str) -> AgentProcess:
        """Return the process with the agent of a host."""
        return self._process_of[host]

    def views(self) -> dict[str, HostView]:
        """Return what the agents have, by host."""
        found = self.each(lambda process: process.views())
        return {view.host: view for views in found for view in views}

    def ready(self) -> int:
        """Return how many agents grant claims. :raises RuntimeError: one has failed."""
        return sum(self.each(lambda process: process.ready()))

    def behind(self) -> AbstractSet[tuple[str, str]]:
        """Return the parts that have not caught up, with their hosts: those of agents, and each
        scheduler that does not know a host as it is.
        """
        found = set[tuple[str, str]]().union(*self.each(lambda process: process.behind()))
        revisions = ChainMap(*self.each(lambda process: dict(process.revisions())))
        for scheduler in self.schedulers:
            found.update((scheduler.host, name) for name in self._late(scheduler, revisions))
        return found

    def known(self, scheduler: SchedulerServer) -> dict[str, dict[str, Any]]:
        """Return the hosts that a scheduler knows, by name."""
        return {each["host"]: each for each in scheduler.read("hosts")["hosts"]}

    def _late(self, scheduler: SchedulerServer, revisions: Mapping[str, int]) -> Iterator[str]:
        """Yield the hosts of which a scheduler does not have what their agents have."""
        known = self.known(scheduler)
        for name, revision in revisions.items():
            if not _is_current(known.get(name), revision):
                yield name

    # -- how it is made ----------------------------------------------------------------------------

    def _start_agents(self, at_once: int) -> None:
        def start(host: str) -> None:
            with contextlib.suppress(EOFError, OSError):  # the run ends meanwhile
                self.agents_of(host).start(host)

        # One after the other of each process, so that those at once share it as little as possible.
        names = [name for nth in range(PER_PROCESS) for name in self.names[nth::PER_PROCESS]]
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(start, names))

    def _make_database(self) -> None:
        url = self.postgresql.create_database()
        engine = open_engine(url, 30)
        migrate.sync(engine)
        engine.dispose()
        self.postgresql.count_statements(url)
        login = {"auth_type": "admin_token", "endpoint": self.placement.url}
        login["token"] = self.placement.token
        self.places = Servers(broker=self.rabbitmq.transport_url, database=url, placement=login)

    def _start_scheduler(self, name: str) -> None:
        made = SchedulerServer(
            self.directory / name,
            self.places.broker,
            database_url=self.places.database,
            config={
                "DEFAULT": {"host": name, **self.intervals.service},
                "placement": self.places.placement,
                # There is no host yet.
                "scheduler": {"start_grace": 1.0, "report_jitter": 5.0},
                "filter_scheduler": {"enabled_filters": ",".join(FIT_FILTERS)},
            },
        )
        made.forked = False
        self._open.callback(made.close)
        self.schedulers.append(made.start())


def wait_schedulers(schedulers: Sequence[SchedulerServer]) -> None:
    """Wait until the schedulers select hosts."""
    for each in schedulers:
        each.wait_ready(120)


def _is_current(known: Mapping[str, Any] | None, revision: int) -> bool:
    return known is not None and known["alive"] and known["revision"] == revision
