"""rtagent server with keys: every call must be signed, over RabbitMQ and PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rtagent.cmd.exit_codes import Exit
from tests.functional.conductor.test_server_commands import HOSTS, TwoHosts, build
from tests.servers import PostgreSQL, RabbitMQ
from tests.servers.daemon import wait_until
from tests.support.hosts import uid
from tests.support.trust import KeyFiles
from tests.support.workload.deployment import migrated


@pytest.fixture(scope="module")
def cloud(
    tmp_path_factory: pytest.TempPathFactory,
    rabbitmq_server: RabbitMQ,
    postgresql_server: PostgreSQL,
) -> Iterator[TwoHosts]:
    directory, url = tmp_path_factory.mktemp("signed"), postgresql_server.create_database()
    files = KeyFiles(directory)
    for host in HOSTS:
        files.add(host, "agent", host=host)
    files.add("scheduler", "scheduler")
    files.add("nova", "conductor")
    made = TwoHosts(directory, rabbitmq_server.transport_url, migrated(url), files)
    yield made
    made.close()


def test_a_server_is_built_resized_evacuated_and_deleted_by_a_signing_conductor(cloud: TwoHosts):
    server = uid()
    built = cloud.rtagent(*build(server, "--host", "hv1"), "-f", "json")
    assert (built.code, built.json["host"]) == (Exit.OK, "hv1"), built.err
    resized = cloud.rtagent("resize", server, "--memory", "1024", "-f", "json")
    assert (resized.code, resized.json["host"]) == (Exit.OK, "hv2"), resized.err
    assert cloud.rtagent("confirm", server).code == Exit.OK
    assert cloud.claims(server) == [("hv2", "active")]
    wait_until(lambda: cloud.scheduler.read("hosts", "hv1")["host"]["vcpus_used"] == 0)
    arrived = cloud.rtagent("evacuate", server, "--host-is-down", "-f", "json")
    assert (arrived.code, arrived.json["host"]) == (Exit.OK, "hv1"), arrived.err
    assert cloud.rtagent("resume").code == Exit.OK
    assert (cloud.claims(server), cloud.guests(server)) == ([("hv1", "active")], ["hv1"])
    assert cloud.rtagent("delete", server).code == Exit.OK
    assert (cloud.claims(server), cloud.guests(server)) == ([], [])
    for daemon in (*cloud.agents.values(), cloud.scheduler):
        assert not refused(daemon.metrics())


def test_a_conductor_without_a_key_is_refused_and_told_why(cloud: TwoHosts, tmp_path: Path):
    lines = cloud.config_file.read_text().splitlines(keepends=True)
    unsigned = tmp_path / "unsigned.conf"
    unsigned.write_text("".join(line for line in lines if not line.startswith("signing_key")))
    signing, cloud.config_file = cloud.config_file, unsigned
    server = uid()
    try:
        built = cloud.rtagent(*build(server))
    finally:
        cloud.config_file = signing
    assert built.code != Exit.OK
    assert "requires one: set [rpc] signing_key of the caller" in built.err
    assert cloud.claims(server) == []
    assert cloud.rtagent("delete", server).code == Exit.OK


def refused(metrics: dict[str, float]) -> float:
    """Return how many calls a daemon has refused because of their caller."""
    return sum(
        value for name, value in metrics.items() if name.startswith("rtagent_calls_refused_total")
    )
