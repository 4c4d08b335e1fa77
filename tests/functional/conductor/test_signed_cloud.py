"""rtagent server with keys: every call must be signed. The agents have databases of their own, and
their hosts are forced down in the schedulers' database."""

from collections.abc import Iterator

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import pytest
from oslo_context.context import RequestContext

from rtagent.cmd.exit_codes import Exit
from rtagent.errors import NodeNotReady
from rtagent.rpc.client import AgentAPI
from tests.functional.cli.shell import run
from tests.functional.conductor.test_server_commands import HOSTS, TwoHosts, build
from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon, wait_until
from tests.support.hosts import uid
from tests.support.trust import KeyFiles
from tests.support.workload.deployment import open_transport

CONTEXT = RequestContext(user_id="nova", roles=["conductor"], overwrite=False)
FLAVOR = {"vcpus": 1, "memory_mb": 64}
REFUSED = "rtagent_calls_refused_total"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> KeyFiles:
    made = KeyFiles(tmp_path_factory.mktemp("keys"))
    for host in HOSTS:
        made.add(host, "agent", host=host)
    made.add("scheduler", "scheduler")
    made.add("nova", "conductor")
    made.add("ops", "operator")
    return made


@pytest.fixture(scope="module")
def cloud(
    tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ, files: KeyFiles
) -> Iterator[TwoHosts]:
    made = TwoHosts(tmp_path_factory.mktemp("forced"), rabbitmq_server.transport_url, files=files)
    yield made
    made.close()


@pytest.fixture
def api(rabbitmq_server: RabbitMQ, files: KeyFiles) -> Iterator[AgentAPI]:
    """The agent of hv1, for a conductor that makes each call once."""
    transport = open_transport(rabbitmq_server.transport_url, files.options("nova"))
    yield AgentAPI(transport, "hv1", timeout=30, attempts=1)
    transport.cleanup()


def force_down(cloud: TwoHosts, files: KeyFiles, *words: str) -> None:
    config, keys = cloud.directory / "ops.conf", [str(files.file(n)) for n in ("scheduler", "ops")]
    config.write_text(cloud.scheduler.config_file.read_text().replace(*keys))
    done = run("--config-file", str(config), "service", "force-down", "hv1", *words)
    assert done.code == Exit.OK, done.err


def forced_down(agent: Daemon) -> bool:
    """Return whether an agent's own database, its health and its readiness have it."""
    listed = run("--config-file", str(agent.config_file), "service", "list", "-f", "json")
    [service] = listed.json
    checks = agent.read("health")["checks"].get("forced_down")
    warned = bool(checks) and checks[0]["status"] == "warn"
    return bool(service["forced_down"]) and warned


def test_an_agent_that_was_away_learns_that_its_host_was_forced_down(
    cloud: TwoHosts, api: AgentAPI, files: KeyFiles
):
    server, agent = uid(), cloud.agents["hv1"]
    assert cloud.rtagent(*build(server, "--host", "hv1")).code == Exit.OK
    agent.kill()
    force_down(cloud, files)
    arrived = cloud.rtagent("evacuate", server, "-f", "json")
    assert (arrived.code, arrived.json["host"]) == (Exit.OK, "hv2"), arrived.err

    agent.start().wait_ready()
    wait_until(lambda: forced_down(agent))
    with pytest.raises(NodeNotReady, match="rtagent service force-down hv1 --off ends that"):
        api.instance_claim(CONTEXT, {"uuid": uid(), "flavor": FLAVOR})
    wait_until(
        lambda: "forced this host down" in cloud.scheduler.read("hosts", "hv1")["host"]["why_not"]
    )
    assert sorted(cloud.claims(server)) == [("hv1", "active"), ("hv2", "active")]
    assert cloud.rtagent("resume").code == Exit.OK
    assert (cloud.claims(server), cloud.guests(server)) == ([("hv2", "active")], ["hv2"])

    force_down(cloud, files, "--off")
    wait_until(lambda: agent.read("health")["checks"]["forced_down"][0]["status"] == "pass")
    granted = api.instance_claim(CONTEXT, {"uuid": uid(), "flavor": FLAVOR})
    api.abort_instance_claim(CONTEXT, granted["uuid"])
    wait_until(lambda: cloud.scheduler.read("hosts", "hv1")["host"]["up"])
    resized = cloud.rtagent("resize", server, "--memory", "1024", "-f", "json")
    assert (resized.code, resized.json["host"]) == (Exit.OK, "hv1"), resized.err
    assert cloud.rtagent("confirm", server).code == Exit.OK
    assert cloud.rtagent("delete", server).code == Exit.OK
    for daemon in (*cloud.agents.values(), cloud.scheduler):
        refused = {n: v for n, v in daemon.metrics().items() if n.startswith(REFUSED)}
        assert not any(refused.values()), refused


def test_a_conductor_without_a_key_is_refused_and_told_why(cloud: TwoHosts):
    lines, server = cloud.config_file.read_text().splitlines(keepends=True), uid()
    unsigned = cloud.directory / "unsigned.conf"
    unsigned.write_text("".join(line for line in lines if not line.startswith("signing_key")))
    built = run("--config-file", str(unsigned), "server", *build(server))
    assert built.code != Exit.OK
    assert "requires one: set [rpc] signing_key of the caller" in built.err
    assert cloud.claims(server) == []
    assert cloud.rtagent("delete", server).code == Exit.OK
