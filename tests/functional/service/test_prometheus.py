"""A real Prometheus scrapes an agent and a scheduler, and evaluates dashboard and alerts."""

import json
from contextlib import suppress

import pytest
from msgspec.structs import replace
from oslo_context.context import RequestContext

from rtagent.errors import ComputeResourcesUnavailable
from rtagent.rpc.client import AgentAPI
from rtagent.scheduler.errors import NoValidHost
from rtagent.virt.simulate import Machine, host_uri, simulate
from tests.functional.cli.shell import run
from tests.functional.rpc.raw_messages import RawSender
from tests.functional.service.monitoring_files import ALERTS, alerts, dashboard_queries, metrics_in
from tests.servers import Placement
from tests.servers.daemon import Daemon, SchedulerServer, wait_until
from tests.servers.prometheus import Prometheus
from tests.servers.server import free_port
from tests.support.hosts import uid
from tests.support.scheduler_rpc import SchedulerBus, spec
from tests.support.trust import Authority

CONTEXT = RequestContext(user_id="alice", roles=["conductor"], overwrite=False)
MACHINE = Machine(pages={2048: 512}, nics=1, vfs=4)
VF = {"vendor_id": "8086", "product_id": "154c"}
FLAVOR = {"vcpus": 1, "memory_mb": 64}
#: What only a site with troubles has.
TROUBLES = {'rtagent_health{instance=~"$instance",status!="pass"} == 1'}


class Site:
    """An agent that is scraped over loopback, and a scheduler over TLS, as the documentation says.

    :ivar agent: with huge pages, virtual functions and Placement.
    """

    def __init__(self, directory, broker, placement):
        port, api_port = free_port(), free_port()
        file = directory / "host.xml"
        simulate(file, replace(MACHINE, hostname="compute1"))
        self.agent = Daemon(
            directory / "agent",
            broker.transport_url,
            uri=host_uri(file),
            config={
                "DEFAULT": {
                    "host": f"agent-{uid()}",
                    "report_interval": 1,
                    "compute_monitors": "cpu.virt_driver",
                },
                "api": {"address": f"127.0.0.1:{port}"},
                "compute": {"cpu_dedicated_set": "1-31", "cpu_shared_set": "0"},
                "pci": {"device_spec": json.dumps(VF)},
                "placement": {**placement.login, "manage_allocations": "yes"},
            },
        )
        authority = Authority(directory / "tls")
        cert, key = authority.certificate("controller")
        tls = {"tls_cert": cert, "tls_key": key, "tokens_file": directory / "tokens"}
        self.scheduler = SchedulerServer(
            directory / "scheduler",
            broker.transport_url,
            config={"scheduler": {"api_address": f"127.0.0.1:{api_port}"}, "api": tls},
        )
        made = run("--config-file", str(self.scheduler.config_file), "token", "create", "prom")
        assert made.code == 0, made.err
        token = directory / "token"
        token.write_text(made.out.strip())
        self.prometheus = Prometheus(
            [
                {"job_name": "rtagent", **targets(f"127.0.0.1:{port}")},
                {
                    "job_name": "rtagent-scheduler",
                    "scheme": "https",
                    "authorization": {"credentials_file": str(token)},
                    "tls_config": {"ca_file": str(authority.ca)},
                    **targets(f"127.0.0.1:{api_port}"),
                },
            ],
            [ALERTS],
        )

    def samples(self, query):
        """The samples of a query of the dashboard, as Grafana sends it."""
        query = query.replace("$instance", ".*").replace("$__rate_interval", "1m")
        return self.prometheus.query(query)

    def close(self):
        self.prometheus.close()
        self.scheduler.close()
        self.agent.close()


def targets(address):
    return {"static_configs": [{"targets": [address]}]}


@pytest.fixture(scope="module")
def site(tmp_path_factory, rabbitmq_server):
    with Placement() as placement:
        site = Site(tmp_path_factory.mktemp("site"), rabbitmq_server.start(), placement)
        try:
            site.agent.start().wait_ready()
            site.scheduler.start().wait_ready()
            site.prometheus.start()
            wait_until(lambda: [each["value"][1] for each in site.samples("up")] == ["1", "1"])
            yield site
        finally:
            site.close()


@pytest.fixture
def busy(site, transport, rabbitmq):
    """A function that makes claims and selections, of which some are refused."""
    bus = SchedulerBus(rabbitmq.transport_url)
    api = AgentAPI(transport, site.agent.host, timeout=30)

    def work():
        claim = api.instance_claim(CONTEXT, {"uuid": uid(), "flavor": FLAVOR})
        api.activate_claim(CONTEXT, claim["uuid"])
        api.release_claim(CONTEXT, claim["uuid"])
        with pytest.raises(ComputeResourcesUnavailable):
            api.instance_claim(CONTEXT, {"uuid": uid(), "flavor": FLAVOR | {"vcpus": 1000}})
        with suppress(NoValidHost):  # the hosts that were selected before count
            bus.call("select_destinations", spec(), [uid()])

    # Room is counted for the flavors of the guests that are there.
    guest = api.instance_claim(CONTEXT, {"uuid": uid(), "flavor": FLAVOR})
    yield work
    api.release_claim(CONTEXT, guest["uuid"])
    bus.close()


def firing(site):
    return {each["metric"]["alertname"] for each in site.samples('ALERTS{alertstate="firing"}')}


def test_every_panel_of_the_dashboard_has_data(site, busy):
    queries = [each for each in dashboard_queries() if each not in TROUBLES]
    assert len(queries) == len(dashboard_queries()) - len(TROUBLES)

    def empty():
        busy()
        return [each for each in queries if not site.samples(each)]

    wait_until(lambda: not empty(), timeout=240, pause=1)
    wait_until(lambda: [site.samples(each) for each in TROUBLES] == [[]])


def test_the_variable_of_the_dashboard_lists_the_daemons(site):
    found = site.prometheus.get("label/instance/values", **{"match[]": "rtagent_build_info"})
    assert sorted(found) == sorted(each["metric"]["instance"] for each in site.samples("up"))


def test_alerts_are_evaluated_and_silent_while_nothing_is_wrong(site):
    def rules():
        groups = site.prometheus.get("rules")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    wait_until(lambda: all(each["health"] == "ok" for each in rules().values()))
    assert rules().keys() == alerts().keys()
    assert firing(site) == set()


def test_counters_of_alerts_have_a_value_before_their_first_event(site):
    growing = [each["expr"] for each in alerts().values() if "increase(" in each["expr"]]
    assert len(growing) == 4
    assert [each for each in metrics_in(growing) if not site.samples(each)] == []


def test_the_first_message_that_is_dropped_is_an_alert(site, rabbitmq):
    assert "RtagentMessagesRefused" not in firing(site)
    with RawSender(rabbitmq.port, site.agent.host) as sender:
        sender.send("no envelope")
    wait_until(lambda: "RtagentMessagesRefused" in firing(site))
