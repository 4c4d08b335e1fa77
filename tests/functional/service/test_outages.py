"""Starts and stops during outages, and two agents on one libvirtd."""

from collections.abc import Iterator

import pytest

from tests.servers.daemon import Daemon, wait_until
from tests.support.workload.deployment import migrated

EX_CONFIG = 78


@pytest.fixture
def daemon(tmp_path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "a", "fake://")
    yield made
    made.close()


def test_database_without_a_schema_is_refused_with_the_remedy(daemon, postgresql):
    daemon.configure({"database": {"connection": postgresql.create_database()}})
    daemon.start()

    assert daemon.wait() == EX_CONFIG
    assert "run rtagent db sync" in daemon.last_lines()


def test_daemon_stops_during_an_outage_of_the_database(daemon, postgresql):
    url = migrated(postgresql.create_database())
    daemon.configure({"database": {"connection": url, "operation_timeout": 1}})
    daemon.start().wait_ready()

    with postgresql.outage():
        assert daemon.terminate() == 0


def test_second_agent_on_the_hypervisor_is_refused(daemon, libvirtd, tmp_path):
    """The agents share nothing but the hypervisor."""
    hypervisor = {"libvirt": {"connection_uri": libvirtd.uri}}
    daemon.configure({**hypervisor, "DEFAULT": {"lock_path": tmp_path}})
    daemon.start().wait_ready()
    with Daemon(tmp_path / "b", "fake://", uri=libvirtd.uri) as second:
        second.kill()
        second.configure({"DEFAULT": {"lock_path": tmp_path}})
        second.start()

        assert second.wait() == EX_CONFIG
        assert f"is locked by process {daemon.pid}" in second.last_lines()
        assert "has an agent already" in second.last_lines()


def test_daemon_notices_a_hypervisor_that_hangs_and_can_stop(daemon, libvirtd):
    daemon.configure(
        {
            "DEFAULT": {"update_resources_interval": 1},
            "libvirt": {"connection_uri": libvirtd.uri, "call_timeout": 1},
        }
    )
    daemon.start().wait_ready()

    libvirtd.freeze()

    daemon.wait_notified("STATUS=not granting")
    wait_until(lambda: checks(daemon)["hypervisor"] == "fail")
    assert daemon.terminate() == 0


def checks(daemon: Daemon) -> dict[str, str]:
    return {part: each[0]["status"] for part, each in daemon.read("health")["checks"].items()}
