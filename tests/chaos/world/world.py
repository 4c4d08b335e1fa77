"""World: real servers and daemons, with a relay in each connection."""

import contextlib
import random
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from sqlalchemy.engine import make_url

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend
from tests.chaos.world.broker import TlsRabbitMQ
from tests.chaos.world.clock import Clock, Steps
from tests.chaos.world.features import KEYS, QEMU, TLS
from tests.chaos.world.features import features as drawn_features
from tests.chaos.world.hosts import agent_config, make_host, qemu_config
from tests.chaos.world.keys import CALLERS, Keys
from tests.chaos.world.link import Link
from tests.chaos.world.mariadb_replica import USER, LoggingMariaDB
from tests.chaos.world.part import Agent, DaemonPart, Part, ServerPart
from tests.chaos.world.qemu import NamedLibvirtd, Qemu
from tests.chaos.world.volume import Volume, mountable
from tests.servers import Libvirtd, MariaDB, Placement, PostgreSQL, RabbitMQ
from tests.servers.daemon import Config, Daemon, SchedulerServer, wait_until
from tests.support.workload.deployment import migrated, open_transport

#: Seconds for the first start of everything.
START_TIMEOUT = 180.0
#: Megabytes of the file system of a database server, and of an agent's file.
VOLUME, SMALL_VOLUME = 1024, 64
#: The databases of agents. With SQLite each agent has its own, and the scheduler has none.
DATABASES = ("postgresql", "mariadb", "sqlite")
#: SQLite in a file of another operating system, which only its agent reaches.
EMBEDDED = "embedded"

#: The host name of the scheduler.
SCHEDULER = "scheduler-1"


class World:
    """Everything that a run needs, from `start` to `close`.

    :ivar patience: how many times as long as usual everything may take.
    :ivar speed: durations of faults, and pauses between faults or calls, are divided by it.
    :ivar seed: from which the database and the features are drawn.
    :ivar features: see `tests.chaos.world.features`.
    :ivar database_kind: one of `DATABASES`, or `EMBEDDED`.
    :ivar broker: RabbitMQ. :ivar placement: Placement.
    :ivar database: the database server, or None with SQLite.
    :ivar libvirtd: the server of the host with QEMU, or None.
    :ivar qemu: the domains of hosts with QEMU, by host.
    :ivar keys: of callers and daemons; None: nothing is signed.
    :ivar database_url: as an administrator connects, not through a link; "" with SQLite.
    :ivar agents: by host. :ivar schedulers: by host. :ivar conductors: by name; often none.
    :ivar links: by the client (a host, or ``callers``) and the server's part (``broker``,
        ``database``, ``placement``).
    :ivar clocks: of the agents, by host.
    :ivar restored: the hosts whose database was taken back to an older copy, until all that this
        left in Placement is deleted.
    :ivar volumes: the file systems that a database has for itself, by what uses them. There are
        none if this process may not mount.
    """

    patience: ClassVar[int] = 1
    speed: ClassVar[float] = 1.0

    def __init__(
        self,
        directory: Path,
        seed: int,
        *,
        hosts: int = 3,
        database: str | None = None,
        features: Collection[str] | None = None,
    ) -> None:
        """:param database: one of `DATABASES`, or `EMBEDDED`. :param features: of the world.

        None: they are drawn from the seed.
        """
        self.directory, self.seed = directory, seed
        drawn = random.Random(f"world {seed}").choice(DATABASES)
        self.database_kind = database or drawn
        self.names = [f"host-{number}" for number in range(1, hosts + 1)]
        self.features = frozenset(drawn_features(seed, hosts) if features is None else features)
        signed = KEYS in self.features
        self.keys = Keys(directory / "keys", self.names, [SCHEDULER]) if signed else None
        self.qemu: dict[str, Qemu] = {}
        self.agents: dict[str, Agent] = {}
        self.schedulers: dict[str, DaemonPart] = {}
        self.conductors: dict[str, DaemonPart] = {}
        self.links: dict[tuple[str, str], Link] = {}
        self.clocks: dict[str, Steps] = {}
        self.restored: set[str] = set()
        self.volumes: dict[str, Volume] = {}
        self._volume_of: dict[Path, Volume] = {}
        self._open = contextlib.ExitStack()
        with contextlib.ExitStack() as failed:
            failed.callback(self._open.close)
            self.broker = self._server(TlsRabbitMQ() if TLS in self.features else RabbitMQ())
            self.placement = self._server(Placement())
            self.libvirtd = self._named_libvirtd() if QEMU in self.features else None
            self.database = self._database()
            failed.pop_all()
        self.database_url = ""

    # -- start and end -----------------------------------------------------------------------------

    def start(self) -> Self:
        """Start everything, and wait until all daemons are ready."""
        for each in self.servers:
            each.process.start()
        if self.database is not None:
            server = self.database.server
            assert isinstance(server, PostgreSQL | MariaDB)
            self.database_url = migrated(server.create_database())
        for name in self.names:
            self.agents[name] = self._agent(name)
        self.schedulers[SCHEDULER] = self._scheduler(SCHEDULER)
        for part in self.daemons:
            part.process.start()
        timeout = START_TIMEOUT * self.patience
        for part in self.daemons:
            part.wait_ready(timeout)
        scheduler = self.schedulers[SCHEDULER]
        wait_until(lambda: self._knows_all(scheduler.read("hosts")), timeout)
        return self

    def close(self) -> None:
        """End every process. The directory of the world is kept."""
        with contextlib.ExitStack() as ending:  # one that fails does not keep the others open
            for link in self.links.values():
                ending.callback(link.close)
            ending.callback(self._open.close)
            for part in self.daemons:
                ending.callback(part.close)
            for link in self.links.values():
                ending.callback(link.heal)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- parts -------------------------------------------------------------------------------------

    @property
    def servers(self) -> list[ServerPart]:
        """The servers that run in this world."""
        all_kinds = (self.broker, self.placement, self.libvirtd, self.database)
        return [each for each in all_kinds if each is not None]

    @property
    def simulated(self) -> list[str]:
        """The hosts whose domains are in a file."""
        return [name for name in self.names if name not in self.qemu]

    @property
    def libvirtds(self) -> Mapping[str, Part]:
        """Each libvirtd that is a process, by the name that faults have for it."""
        return {} if self.libvirtd is None else {"libvirtd": self.libvirtd}

    @property
    def daemons(self) -> list[Agent]:
        """Agents and schedulers."""
        return [*self.agents.values(), *self.schedulers.values()]

    @property
    def parts(self) -> list[Part]:
        """Servers, and the daemons that have been made."""
        return [*self.servers, *self.daemons]

    def local_agent(self, host: str) -> DaemonPart:
        """Return the agent of a host, which is a process of this machine."""
        agent = self.agents[host]
        assert isinstance(agent, DaemonPart), f"the agent of {host} runs elsewhere"
        return agent

    def link(self, client: str, server: str) -> Link:
        """Return the link from a client to a server; it is made when it is first needed."""
        if (client, server) not in self.links:
            target = {"broker": self.broker, "placement": self.placement}.get(server, self.database)
            assert target is not None, f"there is no {server}"
            self.links[client, server] = Link(target.port)
        return self.links[client, server]

    def open_transport(self, client: str = CALLERS, **options: Any) -> Any:
        """Return a transport of oslo.messaging, through a link of its own."""
        rabbit = {"rabbit_interval_max": 1, "heartbeat_timeout_threshold": 10, **options}
        signing = self.keys.options(CALLERS) if self.keys else {}
        url = self._broker_url(client)
        return open_transport(url, signing, **rabbit, **self._certificate(client))

    def agent_database_url(self, host: str, *, direct: bool = True) -> str:
        """Return the SQLAlchemy URL of an agent's database. :param direct: not through its link."""
        if self.database is None:
            return f"sqlite:///{_sqlite(self.agents[host].directory)}"
        return self.database_url if direct else self._linked(self.database_url, host, "database")

    def add_replica(self, replica: PostgreSQL | MariaDB) -> None:
        """Start a replica of the database server. It ends with the world."""
        self._open.callback(replica.close)
        self._give_volume(replica)
        replica.start()

    def replace_database(self, part: ServerPart) -> None:
        """Lead every link to another database server, which has the same databases."""
        self.database = part
        if volume := self._volume_of.get(part.directory):
            self.volumes["database"] = volume
        url = make_url(self.database_url).set(port=part.port)
        self.database_url = url.render_as_string(hide_password=False)
        for (_, server), link in list(self.links.items()):
            if server == "database":
                link.retarget(part.port)

    # -- how they are made -------------------------------------------------------------------------

    def _server(self, server: RabbitMQ | Placement | PostgreSQL | MariaDB | Libvirtd) -> ServerPart:
        self._open.callback(server.close)
        return ServerPart(server)

    def _database(self) -> ServerPart | None:
        if self.database_kind in ("sqlite", EMBEDDED):
            return None
        server = PostgreSQL() if self.database_kind == "postgresql" else LoggingMariaDB()
        part = self._server(server)
        if volume := self._give_volume(server):
            self.volumes["database"] = volume
        return part

    def _give_volume(self, server: PostgreSQL | MariaDB) -> Volume | None:
        """Mount a file system on the directory of a new server, if this process may mount."""
        if not mountable():
            return None
        self._volume_of[server.directory] = volume = Volume(server.directory, VOLUME)
        # A directory can be removed when nothing is mounted on it any more.
        self._open.callback(volume.close)
        self._open.callback(server.stop)
        return volume

    def _sqlite_url(self, directory: Path, name: str) -> str:
        """Return the URL of an agent's own file, which has a file system for itself."""
        file = _sqlite(directory)
        file.parent.mkdir(parents=True)
        if mountable():
            self.volumes[name] = volume = Volume(file.parent, SMALL_VOLUME)
            self._open.callback(volume.close, keep=True)
        return f"sqlite:///{file}"

    def _agent(self, name: str) -> Agent:
        directory = self.directory / name
        uri = self._hypervisor(directory, name)
        if self.database is None:
            url = self._sqlite_url(directory, name)
        else:
            url = self._linked(self.database_url, name, "database")
        daemon = Daemon(directory, self._broker_url(name), database_url=url, uri=uri)
        daemon.configure(qemu_config(name) if uri else agent_config(name))
        daemon.configure(self._common(name))
        endpoint = f"http://127.0.0.1:{self.link(name, 'placement').port}"
        daemon.configure({"placement": login(endpoint)})
        part = DaemonPart(daemon)
        self.clocks[name] = clock = Clock(directory)
        part.process.environment.update(clock.environment)
        return part

    def _named_libvirtd(self) -> ServerPart:
        return self._server(NamedLibvirtd(self.names[-1]))

    def _hypervisor(self, directory: Path, name: str) -> str | None:
        """Make the hypervisor of a host. Return its URI; None: the host is simulated."""
        if self.libvirtd is None or name != self.names[-1]:
            make_host(directory, name)
            return None
        assert isinstance(self.libvirtd.server, Libvirtd)
        uri = self.libvirtd.server.uri
        self.qemu[name] = Qemu(uri)
        return uri

    def _certificate(self, client: str) -> dict[str, str]:
        """Return the options of a client's connection to the broker."""
        server = self.broker.server
        return dict(server.options(client)) if isinstance(server, TlsRabbitMQ) else {}

    def _scheduler(self, name: str) -> DaemonPart:
        url = self._linked(self.database_url, name, "database") if self.database else None
        daemon = SchedulerServer(self.directory / name, self._broker_url(name), database_url=url)
        daemon.configure(
            {
                "DEFAULT": {
                    "host": name,
                    "report_interval": 2 * self.patience,
                    "service_down_time": 20 * self.patience,
                },
                "scheduler": {
                    "assume_timeout": 10 * self.patience,
                    "start_grace": 10 * self.patience,
                },
            }
        )
        daemon.configure(self._common(name))
        return DaemonPart(daemon)

    def _common(self, name: str) -> Config:
        """Return the options of every daemon: outages are noticed within seconds."""
        return {
            "rpc": {} if self.keys is None else self.keys.options(name),
            "database": {"operation_timeout": 5 * self.patience},
            "oslo_messaging_rabbit": {
                "rabbit_interval_max": 1,
                "heartbeat_timeout_threshold": 10 * self.patience,
                **self._certificate(name),
            },
        }

    def _broker_url(self, client: str) -> str:
        return f"rabbit://guest:guest@127.0.0.1:{self.link(client, 'broker').port}/"

    def _linked(self, url: str, client: str, server: str) -> str:
        linked = make_url(url).set(port=self.link(client, server).port)
        if server == "database":
            linked = linked.set(username=USER)
        return linked.render_as_string(hide_password=False)

    def _knows_all(self, document: Any) -> bool:
        return {each["host"] for each in document["hosts"]} >= set(self.names)


def login(endpoint: str) -> dict[str, str]:
    """Return the options with which an agent reaches Placement at this URL."""
    return {"auth_type": "admin_token", "endpoint": endpoint, "token": Placement.token}


def _sqlite(directory: Path) -> Path:
    """Return the file of the database of an agent with this directory."""
    return directory / "database" / "rtagent.sqlite"
