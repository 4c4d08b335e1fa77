"""The test servers themselves: real, restartable with their data, and gone when closed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import amqp
import libvirt
import psutil
import pytest
import sqlalchemy

from tests.servers import (
    Libvirtd,
    MariaDB,
    Placement,
    PostgreSQL,
    RabbitMQ,
    Server,
    ServerFailed,
    domain_xml,
)
from tests.servers.daemon import Daemon, DaemonFailed
from tests.servers.process import Process

ROOT = Path(__file__).resolve().parents[3]


def assert_database_keeps_rows(server: PostgreSQL | MariaDB) -> None:
    engine = sqlalchemy.create_engine(server.create_database())
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE kept (id INTEGER)"))
        connection.execute(sqlalchemy.text("INSERT INTO kept VALUES (42)"))

    for interrupt in (server.stop, server.kill):
        interrupt()
        assert not server.answers()
        server.start()

        engine.dispose()
        with engine.connect() as connection:
            assert connection.scalar(sqlalchemy.text("SELECT id FROM kept")) == 42
    engine.dispose()


def test_postgresql_keeps_rows_over_stop_and_kill(postgresql):
    assert_database_keeps_rows(postgresql)


def test_mariadb_keeps_rows_over_stop_and_kill(mariadb):
    assert_database_keeps_rows(mariadb)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_each_database_is_new(request, kind):
    server = request.getfixturevalue(kind)
    first, second = (sqlalchemy.create_engine(server.create_database()).connect() for _ in range(2))
    with first, second:
        first.execute(sqlalchemy.text("CREATE TABLE mine (id INTEGER)"))
        first.commit()

        assert sqlalchemy.inspect(second).get_table_names() == []


def test_rabbitmq_keeps_a_durable_message_over_stop_and_kill(rabbitmq):
    queue = f"kept-{uuid4()}"
    address = rabbitmq.transport_url.split("@")[1].rstrip("/")

    with amqp.Connection(address) as connection:
        channel = connection.channel()
        channel.confirm_select()
        channel.queue_declare(queue, durable=True, auto_delete=False)
        channel.basic_publish_confirm(amqp.Message("hello", delivery_mode=2), routing_key=queue)

    for interrupt in (rabbitmq.stop, rabbitmq.kill):
        interrupt()
        assert not rabbitmq.answers()
        rabbitmq.start()

        with amqp.Connection(address) as connection:
            message = connection.channel().basic_get(queue)
            assert message is not None
            assert message.body == "hello"


def test_placement_keeps_a_provider_and_logs_requests(placement):
    name = str(uuid4())
    client = placement.client()
    assert client.post("/resource_providers", json={"name": name}).status_code == 200

    for interrupt in (placement.stop, placement.kill):
        interrupt()
        assert not placement.answers()
        placement.start()

        found = client.get(f"/resource_providers?name={name}").json()["resource_providers"]
        assert [provider["name"] for provider in found] == [name]

    read = ("GET", f"/resource_providers?name={name}", 200)
    served = [(each.method, each.path, each.status) for each in placement.requests()]
    assert served == [("POST", "/resource_providers", 200), read, read]


def test_domains_survive_the_stop_of_libvirtd(libvirtd):
    uuid = str(uuid4())
    with _connection(libvirtd) as connection:
        connection.createXML(domain_xml("guest", uuid, vcpus=2, memory_mb=64))

    for interrupt in (libvirtd.stop, libvirtd.kill):
        interrupt()
        assert not libvirtd.answers()
        libvirtd.start()

        with _connection(libvirtd) as connection:
            domain = connection.lookupByUUIDString(uuid)
            state, maximum_kib, _, vcpus, _ = domain.info()
            assert (state, maximum_kib, vcpus) == (libvirt.VIR_DOMAIN_RUNNING, 64 * 1024, 2)


def test_libvirtd_is_not_that_of_this_machine(libvirtd):
    with _connection(libvirtd) as connection:
        connection.defineXML(domain_xml("guest", str(uuid4()), vcpus=1, memory_mb=32))

    assert not Path("/etc/libvirt/qemu/guest.xml").exists()
    assert (libvirtd.directory / "etc/qemu/guest.xml").exists()


def test_a_frozen_server_keeps_the_connection_and_answers_when_thawed(placement):
    placement.freeze()
    with socket.create_connection(("127.0.0.1", placement.port), timeout=0.5) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with pytest.raises(TimeoutError):
            client.recv(1)

        placement.thaw()
        client.settimeout(30)
        assert client.recv(8) == b"HTTP/1.0"


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_freezing_a_database_reaches_the_process_of_a_connection(request, kind):
    server = request.getfixturevalue(kind)
    engine = sqlalchemy.create_engine(server.create_database())
    with engine.connect() as connection:
        server.freeze()
        main = psutil.Process(server.pid)
        states = {process.status() for process in [main, *main.children(recursive=True)]}
        server.thaw()

        assert states == {psutil.STATUS_STOPPED}
        assert connection.scalar(sqlalchemy.text("SELECT 1")) == 1
    engine.dispose()


@pytest.mark.parametrize("make", [RabbitMQ, PostgreSQL, MariaDB, Placement, Libvirtd])
def test_nothing_is_left_after_close(make):
    with make() as server:
        if isinstance(server, Libvirtd):
            with _connection(server) as connection:
                connection.createXML(domain_xml("guest", str(uuid4()), vcpus=1, memory_mb=32))
        assert _processes_of(server)

    assert not _processes_of(server)
    assert not server.directory.exists()


@pytest.mark.parametrize("kind", ["RabbitMQ", "PostgreSQL", "MariaDB", "Placement", "Libvirtd"])
def test_nothing_is_left_when_its_owner_is_killed(kind):
    script = f"""
import json, signal, uuid
from tests import servers
server = servers.{kind}().start()
if isinstance(server, servers.Libvirtd):
    import libvirt
    libvirt.open(server.uri).createXML(servers.domain_xml("guest", str(uuid.uuid4()), 1, 32))
print(json.dumps(str(server.directory)), flush=True)
signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        directory = Path(json.loads(owner.stdout.readline()))
        assert _processes_in(directory)
        owner.send_signal(signal.SIGKILL)

    deadline = time.monotonic() + 180
    while (_processes_in(directory) or directory.exists()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _processes_in(directory)
    assert not directory.exists()


def test_a_process_that_ends_by_itself_leaves_nothing_behind(tmp_path: Path):
    here = psutil.Process()
    before = set(here.children())
    process = Process(["sh", "-c", "exit 3"], {}, tmp_path, tmp_path / "log", signal.SIGTERM)
    assert process.wait(60) == 3
    assert set(here.children()) <= before
    process.stop(1)


def test_a_daemon_that_runs_is_not_started_again(tmp_path: Path, rabbitmq_server: RabbitMQ):
    with Daemon(tmp_path, rabbitmq_server.transport_url) as daemon:
        with pytest.raises(DaemonFailed, match=f"runs already, as process {daemon.pid}"):
            daemon.start()
        daemon.kill()
        with daemon.start() as started:
            started.wait_ready()


def test_a_server_that_cannot_start_says_why():
    class Broken(Placement):
        def environment(self):
            return {**super().environment(), "OS_PLACEMENT_DATABASE__CONNECTION": "nonsense://"}

    with pytest.raises(ServerFailed, match="nonsense"), Broken():
        pass


class _connection:
    """A libvirt connection that is closed at the end of the block."""

    def __init__(self, server: Libvirtd) -> None:
        self._connection = libvirt.open(server.uri)

    def __enter__(self) -> libvirt.virConnect:
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _processes_of(server: Server) -> list[psutil.Process]:
    return _processes_in(server.directory)


def _processes_in(directory: Path) -> list[psutil.Process]:
    """The processes that work in the directory or name it, this one aside."""
    found = []
    for process in psutil.process_iter():
        try:
            named = [process.cwd(), *process.cmdline(), *process.environ().values()]
            running = process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            continue
        if running and any(str(directory) in text for text in named) and process.pid != os.getpid():
            found.append(process)
    return found


def ports_of(worker: str) -> list[str]:
    source = "from tests.servers.server import free_port\nfor _ in range(200): print(free_port())"
    environment = {**os.environ, "PYTEST_XDIST_WORKER": worker, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", source]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


def test_workers_never_choose_the_same_port():
    first, second = ports_of("gw1"), ports_of("gw2")
    assert len({*first, *second}) == len(first) + len(second) == 400
