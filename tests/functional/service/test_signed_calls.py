"""An agent and a scheduler that require signatures, over a real message broker."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging
import pytest
from oslo_context.context import RequestContext

from rtagent.rpc import SCHEDULER
from rtagent.rpc.calls import Calls
from rtagent.rpc.casts import BoundedCasts, CastMessage
from rtagent.rpc.client import AgentAPI, SchedulerAPI
from rtagent.rpc.errors import SignatureInvalid
from tests.functional.cli.shell import run
from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon, SchedulerServer, wait_until
from tests.support.hosts import uid
from tests.support.scheduler_rpc import spec
from tests.support.trust import KeyFiles
from tests.support.workload.deployment import open_transport

CONTEXT = RequestContext(user_id="alice", roles=["operator"], overwrite=False)
FLAVOR = {"vcpus": 1, "memory_mb": 64}


class Site:
    """A scheduler and the agent of one host, and the keys of all callers."""

    def __init__(self, directory: Path, url: str) -> None:
        self.url, self.host = url, f"signed-{uid()}"
        self.files = KeyFiles(directory)
        self.files.add("agent", "agent", host=self.host)
        self.files.add("impostor", "agent", host="another-host")
        self.files.add("scheduler", "scheduler")
        self.files.add("nova", "conductor")
        self.files.add("ops", "operator")
        self.daemon = Daemon(
            directory / "agent",
            url,
            config={
                "DEFAULT": {"host": self.host, "report_interval": 1},
                "rpc": self._required("agent"),
            },
        )
        self.scheduler = SchedulerServer(
            directory / "scheduler",
            url,
            config={
                "DEFAULT": {"report_interval": 1},
                "scheduler": {"start_grace": 1},
                "rpc": self._required("scheduler"),
            },
        )
        self._transports: list[oslo_messaging.RPCTransport] = []

    def _required(self, key: str) -> dict[str, object]:
        return self.files.options(key, require_signature=True, verify_replies=True)

    def transport(self, key: str | None = None) -> oslo_messaging.RPCTransport:
        """The transport of a program that has a key, or none."""
        self._transports.append(open_transport(self.url, self.files.options(key)))
        return self._transports[-1]

    def agent(self, key: str | None = None, **options: Any) -> AgentAPI:
        return AgentAPI(self.transport(key), self.host, timeout=30, attempts=1, **options)

    def refused(self, daemon: Daemon | SchedulerServer) -> float:
        """How many calls a daemon has refused because of their signatures."""
        return daemon.metrics().get('rtagent_rpc_total{outcome="SignatureInvalid"}', 0.0)

    def close(self) -> None:
        self.daemon.close()
        self.scheduler.close()
        for transport in self._transports:
            transport.cleanup()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("signed"), rabbitmq_server.start().transport_url)
    try:
        site.daemon.start()
        site.scheduler.start()
        site.daemon.wait_ready()
        site.scheduler.wait_ready()
        yield site
    finally:
        site.close()


def test_agent_and_scheduler_work_together_with_signatures_only(site: Site):
    """Reports, requests for reports, the probes, and calls with replies that are verified."""
    wait_until(lambda: site.host in str(site.scheduler.read("hosts")))
    for daemon in (site.daemon, site.scheduler):
        wait_until(partial(reached, daemon))
        assert site.refused(daemon) == 0
    schedulers = SchedulerAPI(site.transport("nova"), timeout=30, attempts=1, verify=True)
    guest = uid()
    wait_until(lambda: schedulers.ping(CONTEXT)["complete"])
    selected = schedulers.select_destinations(CONTEXT, spec(), [guest])
    assert site.host in str(selected)
    nova = site.agent("nova", verify=True)
    claim = nova.instance_claim(CONTEXT, {"uuid": guest, "flavor": FLAVOR})
    nova.abort_instance_claim(CONTEXT, claim["uuid"])


def test_commands_sign_with_the_key_of_the_configuration(site: Site, tmp_path: Path):
    def command(key: str | None, *words: str) -> Any:
        options = site.files.options(key, verify_replies=True)
        config = tmp_path / f"{key}.conf"
        config.write_text(
            f"[DEFAULT]\ntransport_url = {site.url}\nhost = {site.host}\n[rpc]\n"
            + "".join(f"{name} = {value}\n" for name, value in options.items())
        )
        return run("--config-file", str(config), *words)

    disabled = command("ops", "service", "disable", "--reason", "test")
    assert disabled.code == 0, disabled.err
    assert command("ops", "service", "enable").code == 0
    unsigned = command(None, "service", "disable", "--reason", "test")
    assert unsigned.code != 0
    assert "requires one: set [rpc] signing_key of the caller" in unsigned.err


def test_what_is_not_signed_is_refused_and_recorded(site: Site):
    before = site.refused(site.daemon)
    unsigned = site.agent()
    with pytest.raises(SignatureInvalid, match=f"it has none, and {site.host} requires one"):
        unsigned.instance_claim(CONTEXT, {"uuid": uid(), "flavor": FLAVOR})
    with pytest.raises(SignatureInvalid):
        unsigned.get_claims_for_host(CONTEXT)
    assert unsigned.ping(CONTEXT)["host"] == site.host
    assert site.refused(site.daemon) == before + 2
    site.daemon.wait_logged("refused instance_claim of alice, not proved")
    site.daemon.wait_logged("refused get_claims_for_host of alice, not proved")


def test_a_change_that_is_signed_for_any_scheduler_is_refused(site: Site):
    transport, arguments = site.transport("ops"), {"name": "fast", "uuid": uid()}
    any_scheduler = Calls(transport, SCHEDULER)
    with pytest.raises(SignatureInvalid, match="it is for any server, which is not enough for"):
        any_scheduler.call(CONTEXT, "create_aggregate", arguments)
    assert any_scheduler.call(CONTEXT, "get_aggregates", {}) == {"aggregates": []}
    ops = SchedulerAPI(transport, timeout=30, attempts=1, verify=True)
    assert ops.create_aggregate(CONTEXT, **arguments)["name"] == "fast"
    ops.delete_aggregate(CONTEXT, aggregate="fast")


@pytest.mark.parametrize("key", [None, "impostor", "nova"])
def test_report_of_another_than_the_agent_of_the_host_is_refused(site: Site, key: str | None):
    before = site.refused(site.scheduler) + outcome(site.scheduler, "NotAuthorized")
    casts = BoundedCasts(site.transport(key), SCHEDULER, "agent")
    arguments = {
        "host": site.host,
        "node_uuid": uid(),
        "epoch": 99,
        "revision": 1,
        "instance_uuid": uid(),
    }
    casts.send([CastMessage(method="delete_instance_info", arguments=arguments)])
    wait_until(
        lambda: site.refused(site.scheduler) + outcome(site.scheduler, "NotAuthorized") > before
    )


def test_reload_applies_revoked_keys_and_keeps_the_old_ones_if_the_file_is_damaged(site: Site):
    site.files.add("late", "conductor")
    late, good = site.agent("late"), site.files.path.read_text()
    with pytest.raises(SignatureInvalid, match="does not know the key late"):
        late.get_claims_for_host(CONTEXT)
    reload(site, "the configuration was reloaded")
    assert late.get_claims_for_host(CONTEXT) is not None
    site.files.path.write_text("keys: [{}]\n")
    reload(site, "the old configuration stays in force: [rpc] keys_file")
    assert late.get_claims_for_host(CONTEXT) is not None
    site.files.path.write_text(good)
    site.files.revoke("late")
    reload(site, "the configuration was reloaded")
    with pytest.raises(SignatureInvalid, match="does not know the key late"):
        late.get_claims_for_host(CONTEXT)


def reload(site: Site, logged: str) -> None:
    """Reload the agent, and wait for a new line of its log."""
    before = site.daemon.count_logged(logged)
    site.daemon.reload()
    wait_until(lambda: site.daemon.count_logged(logged) > before)


def reached(daemon: Daemon | SchedulerServer) -> bool:
    """Whether the daemon's own calls reach its server."""
    return bool(daemon.read("health")["checks"]["rpc"][0]["status"] == "pass")


def outcome(daemon: SchedulerServer, name: str) -> float:
    return daemon.metrics().get(f'rtagent_rpc_total{{outcome="{name}"}}', 0.0)
