"""Hosts of one database are upgraded one after the other, while they grant claims."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_context.context import RequestContext
from sqlalchemy import text

from rtagent import __version__
from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.rpc.client import AgentAPI
from rtagent.virt.simulate import Machine, host_uri, simulate
from tests.functional.cli.shell import run
from tests.functional.upgrade.previous_release import PreviousRelease
from tests.servers import PostgreSQL, RabbitMQ
from tests.servers.daemon import Daemon, SchedulerServer
from tests.support.hosts import uid
from tests.support.scheduler_rpc import SchedulerBus, spec

CONTEXT = RequestContext(user_id="conductor", overwrite=False)
SMALL = {"flavorid": "1", "name": "small", "vcpus": 1, "memory_mb": 256, "root_gb": 1}
LARGE = SMALL | {"flavorid": "2", "name": "large", "vcpus": 2}


class Host:
    """A simulated host with an agent, and a caller that sends only what both releases know."""

    def __init__(self, directory: Path, url: str, bus: SchedulerBus, broker: str) -> None:
        directory.mkdir()
        file = directory / "host.xml"
        simulate(file, Machine(hostname=directory.name))
        self.name = f"{directory.name}-{uid()[:8]}"
        config = {
            "DEFAULT": {"host": self.name, "update_resources_interval": -1},
            "scheduler": {"report_jitter": 0.1},
        }
        self.daemon = Daemon(directory, broker, database_url=url, uri=host_uri(file), config=config)
        self.url, self._api = url, AgentAPI(bus.transport, self.name, timeout=30)

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        return getattr(self._api, method)(CONTEXT, *arguments, **named)

    def build(self) -> dict[str, Any]:
        """Return an active claim of a new guest."""
        claim = self.call("instance_claim", {"uuid": uid(), "flavor": SMALL})
        return self.call("activate_claim", claim["uuid"])

    def claims(self) -> dict[str, str]:
        """Return the state of each claim by its uuid."""
        return {each["uuid"]: each["state"] for each in self.daemon.read("claims")["claims"]}

    def version(self) -> str:
        return str(self.call("ping")["version"])


def resize(source: Host, destination: Host) -> tuple[str, dict[str, Any]]:
    """Resize a new guest to the other host. Return the guest and the move."""
    owner = str(source.build()["owner_id"])
    move = {
        "uuid": uid(),
        "migration_type": "resize",
        "source_compute": source.name,
        "dest_compute": destination.name,
    }
    instance = {"uuid": owner, "flavor": SMALL}
    destination.call("resize_claim", instance, LARGE, migration=move)
    source.call("start_move_out", owner, move)
    destination.call("finish_move", owner, move)
    return owner, move


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> PreviousRelease:
    return PreviousRelease(tmp_path_factory.mktemp("previous"))


@pytest.fixture(scope="module")
def bus(rabbitmq_server: RabbitMQ) -> Iterator[SchedulerBus]:
    bus = SchedulerBus(rabbitmq_server.transport_url)
    bus.transport.conf.set_override("rtagent", PreviousRelease.rpc, group="upgrade_levels")
    yield bus
    bus.close()


@pytest.fixture(scope="module")
def hosts(
    tmp_path_factory: pytest.TempPathFactory,
    postgresql_server: PostgreSQL,
    rabbitmq_server: RabbitMQ,
    bus: SchedulerBus,
) -> Iterator[tuple[Host, Host]]:
    directory, url = tmp_path_factory.mktemp("hosts"), postgresql_server.create_database()
    broker = rabbitmq_server.transport_url
    hosts = tuple(Host(directory / name, url, bus, broker) for name in ("cn1", "cn2"))
    yield hosts[0], hosts[1]
    for host in hosts:
        host.daemon.close()


@pytest.fixture(scope="module")
def mixed(hosts: tuple[Host, Host], previous: PreviousRelease) -> tuple[Host, Host]:
    """Upgrade the database under two agents of the previous release, and then the second agent."""
    first, second = hosts
    synced = previous.rtagent(first.daemon.config_file, "db", "sync")
    assert synced.stdout == f"The schema is now {previous.schema}.\n", synced.stderr
    for host in hosts:
        host.daemon.start(**previous.environment)
    for host in hosts:
        host.daemon.wait_ready()
        assert host.version() == previous.version
    claims = [host.build()["uuid"] for host in hosts]
    assert run("--config-file", str(first.daemon.config_file), "db", "sync").code == 0
    for host, claim in zip(hosts, claims, strict=True):
        assert set(host.claims()) == {claim}
        host.build()  # both agents still write
    before = second.claims()
    assert second.daemon.terminate() == 0
    second.daemon.start().wait_ready()
    assert second.claims() == before
    assert [host.version() for host in hosts] == [previous.version, __version__]
    return first, second


def test_guests_move_between_the_releases(mixed: tuple[Host, Host]):
    for source, destination in (mixed, mixed[::-1]):
        before = [source.claims(), destination.claims()]
        owner, move = resize(source, destination)
        source.call("drop_move_claim_at_source", owner, move)
        assert source.claims() == before[0]
        (claim,) = destination.claims().keys() - before[1].keys()
        destination.call("release_claim", claim)
        owner, move = resize(source, destination)
        destination.call("drop_move_claim_at_dest", owner, move)
        source.call("finish_revert", owner, move)
        assert destination.claims() == before[1]
        assert set(source.claims().values()) == {"active"}


def test_scheduler_selects_hosts_of_both_releases(
    mixed: tuple[Host, Host], bus: SchedulerBus, rabbitmq: RabbitMQ, tmp_path: Path
):
    first, second = mixed
    config = {"DEFAULT": {"service_down_time": 3600}}
    broker, url = rabbitmq.transport_url, first.url
    with SchedulerServer(tmp_path, broker, database_url=url, config=config) as scheduler:
        scheduler.wait_ready()
        used = {each["host"]: each["vcpus_used"] for each in scheduler.read("hosts")["hosts"]}
        assert used == {host.name: len(host.claims()) for host in mixed}
        for host in (first, second):
            wanted = spec(force_hosts=[host.name])
            guest = uid()
            (found,) = bus.call("select_destinations", wanted, [guest])["selections"]
            chosen = found["selected"]
            assert chosen["host"] == host.name
            instance = {"uuid": guest, "flavor": wanted["flavor"]}
            host.call("instance_claim", instance, operation_id=chosen["operation_id"])
            host.call("activate_claim", chosen["operation_id"])
            assert host.claims()[chosen["operation_id"]] == "active"


def test_commands_of_both_releases_accept_the_newer_schema(
    mixed: tuple[Host, Host], previous: PreviousRelease
):
    file = mixed[0].daemon.config_file
    assert previous.rtagent(file, "db", "check").returncode == 0
    assert run("--config-file", str(file), "db", "check").code == 0
    assert previous.rtagent(file, "db", "sync").stdout == f"The schema is already {migrate.HEAD}.\n"


def test_agent_goes_back_to_the_previous_release(
    mixed: tuple[Host, Host], previous: PreviousRelease
):
    _, second = mixed
    claims = second.claims()
    for environment in (previous.environment, {}):
        second.daemon.kill()
        second.daemon.start(**environment).wait_ready()
        assert second.claims() == claims
        claims[second.build()["uuid"]] = "active"


def test_agent_that_is_two_releases_behind_does_not_start(
    mixed: tuple[Host, Host], previous: PreviousRelease
):
    first, _ = mixed
    assert first.daemon.terminate() == 0
    engine = open_engine(first.url, 30)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("UPDATE schema_compatibility SET oldest_writer = '9998'"))
    engine.dispose()
    first.daemon.start(**previous.environment)
    assert first.daemon.wait() == 78
    newer = f"newer than this program's {previous.schema} by more than one release"
    assert newer in first.daemon.last_lines()
