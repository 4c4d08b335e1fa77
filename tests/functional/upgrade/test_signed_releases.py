"""Signatures in a site that is being upgraded: the release before this one knows none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.rpc.client import AgentAPI
from rtagent.rpc.errors import ReplyNotVerified
from rtagent.rpc.scheduler_client import SchedulerAPI
from rtagent.rpc.transport import get_transport
from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon, SchedulerServer, wait_until
from tests.support.hosts import uid
from tests.support.previous_release import PreviousRelease
from tests.support.trust import KeyFiles

CONTEXT = RequestContext(user_id="alice", roles=["conductor"], overwrite=False)
FLAVOR = {"vcpus": 1, "memory_mb": 64}
#: A caller. Its arguments: the URL of the broker, and the host.
CALLER = """
import sys
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.transport import get_transport
from oslo_config import cfg
from oslo_context.context import RequestContext
conf = cfg.ConfigOpts()
conf([])
api = AgentAPI(get_transport(conf, sys.argv[1]), sys.argv[2], timeout=30, attempts=1)
context = RequestContext(user_id="old", roles=["conductor"])
print(len(api.get_claims_for_host(context)["claims"]), "claims")
"""


RELOADED = "the configuration was reloaded"


def has_logged_more(daemon: Daemon, before: int) -> bool:
    return daemon.count_logged(RELOADED) > before


class Site:
    """Agents of both releases, and a scheduler of this one, which has the keys of this release."""

    def __init__(self, directory: Path, url: str, previous: PreviousRelease) -> None:
        self.url, self.previous = url, previous
        self._directory = directory
        self.files = KeyFiles(directory)
        self.old = self._agent("old")
        self.new = self._agent("new")
        self.scheduler = SchedulerServer(
            directory / "scheduler",
            url,
            config={"DEFAULT": {"report_interval": 1}, "rpc": self._options("scheduler")},
        )
        self.files.add("nova", "conductor")
        self.transport = self._transport()

    def _agent(self, name: str) -> Daemon:
        host = f"{name}-{uid()[-12:]}"
        config = {
            "DEFAULT": {"host": host, "report_interval": 1},
            "api": {"page_url": f"https://{name}.example:8775/"},
            "rpc": self._options(name, host),
        }
        return Daemon(self._directory / name, self.url, config=config)

    def _options(self, name: str, host: str | None = None) -> dict[str, object]:
        self.files.add(name, "scheduler" if host is None else "agent", host=host)
        return self.files.options(name)

    def _transport(self) -> oslo_messaging.RPCTransport:
        conf = cfg.ConfigOpts()
        conf([])
        transport = get_transport(conf, self.url)
        conf.set_override("rtagent", PreviousRelease.rpc, group="upgrade_levels")
        conf.set_override("scheduler", "1.0", group="upgrade_levels")
        for name, value in self.files.options("nova").items():
            conf.set_override(name, value, group="rpc")
        return transport

    def start(self) -> None:
        self.old.start(**self.previous.environment)
        for daemon in (self.new, self.scheduler):
            daemon.start()
        for daemon in (self.old, self.new, self.scheduler):
            daemon.wait_ready()

    def require(self) -> None:
        """Require signatures where this release runs."""
        for daemon in (self.new, self.scheduler):
            before = daemon.count_logged(RELOADED)
            daemon.configure({"rpc": {"require_signature": True}})
            daemon.reload()
            wait_until(partial(has_logged_more, daemon, before))

    def signing(self, daemon: Daemon, *, verify: bool = False) -> AgentAPI:
        """Return a client that signs."""
        return AgentAPI(self.transport, daemon.host, timeout=30, attempts=1, verify=verify)

    def previous_caller(self, daemon: Daemon) -> subprocess.CompletedProcess[str]:
        """Let a caller of the previous release read claims."""
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CALLER, self.url, daemon.host],
            cwd=self._directory,
            env={**os.environ, **self.previous.environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def close(self) -> None:
        self.transport.cleanup()
        for daemon in (self.old, self.new, self.scheduler):
            daemon.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ) -> Iterator[Site]:
    previous = PreviousRelease(tmp_path_factory.mktemp("previous"))
    site = Site(tmp_path_factory.mktemp("site"), rabbitmq_server.transport_url, previous)
    try:
        site.start()
        yield site
    finally:
        site.close()


def build_and_abort(api: AgentAPI) -> None:
    claim = api.instance_claim(CONTEXT, {"uuid": uid(), "flavor": FLAVOR})
    api.abort_instance_claim(CONTEXT, claim["uuid"])


def shown(scheduler: SchedulerServer) -> set[str]:
    """Return the hosts of which a scheduler has reports."""
    return {each["host"] for each in scheduler.read("hosts")["hosts"]}


def refused(site: Site) -> float:
    return site.scheduler.metrics().get('rtagent_rpc_total{outcome="SignatureInvalid"}', 0.0)


def test_both_releases_work_together_while_signatures_are_optional(site: Site):
    for daemon in (site.old, site.new):
        build_and_abort(site.signing(daemon))  # the previous release ignores signatures
        served = site.previous_caller(daemon)
        assert served.stdout == "0 claims\n", served.stderr
    wait_until(lambda: {site.old.host, site.new.host} <= shown(site.scheduler))
    assert refused(site) == 0


def test_the_previous_release_cannot_sign_its_replies(site: Site):
    with pytest.raises(ReplyNotVerified, match=r"has no \[rpc\] signing_key or is of"):
        site.signing(site.old, verify=True).get_claims_for_host(CONTEXT)
    assert site.signing(site.new, verify=True).get_claims_for_host(CONTEXT)["claims"] == []


def test_a_scheduler_of_the_previous_release_serves_signed_calls_and_reports(
    site: Site, tmp_path: Path
):
    config = {"DEFAULT": {"host": "previous"}}
    scheduler = SchedulerServer(tmp_path, site.url, config=config)
    with scheduler.start(**site.previous.environment):
        scheduler.wait_ready()
        wait_until(lambda: {site.old.host, site.new.host} <= shown(scheduler))
        one = SchedulerAPI(site.transport, "previous", timeout=30, attempts=1)
        pong = one.ping(CONTEXT)
        assert (pong["host"], pong["version"]) == ("previous", site.previous.version)
        one.create_aggregate(CONTEXT, name="fast", uuid=uid())
        assert [each["name"] for each in one.get_aggregates(CONTEXT)["aggregates"]] == ["fast"]
        with pytest.raises(ReplyNotVerified):
            SchedulerAPI(site.transport, "previous", timeout=30, verify=True).ping(CONTEXT)


def test_the_previous_release_is_refused_where_signatures_are_required(site: Site):
    site.require()
    build_and_abort(site.signing(site.new))
    build_and_abort(site.signing(site.old))
    unsigned = site.previous_caller(site.new)
    assert unsigned.returncode != 0
    assert f"{site.new.host} requires one: set [rpc] signing_key of the caller" in unsigned.stderr
    assert site.previous_caller(site.old).stdout == "0 claims\n"
    before = refused(site)
    wait_until(lambda: refused(site) > before)
    site.scheduler.wait_logged("not proved, reply queue none")
