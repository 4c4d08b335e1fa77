"""A scheduler and two agents on simulated hosts: the view follows the agents."""

import signal

import pytest
from oslo_context.context import RequestContext

from rtagent.rpc.client import AgentAPI
from tests.servers.daemon import Daemon, SchedulerServer, wait_until
from tests.support.hosts import uid
from tests.support.scheduler_rpc import SchedulerBus, spec

HOSTS = ("cn1", "cn2")
#: Seconds; a thread that hangs is later.
LATEST = 60


@pytest.fixture(scope="module")
def agents(tmp_path_factory, rabbitmq_server):
    made = {}
    for host in HOSTS:
        config = {
            "DEFAULT": {"host": host, "report_interval": 1},
            "api": {"page_url": f"https://{host}.example:8775/"},
            "scheduler": {"report_jitter": 0.1, "host_report_interval": 0.2},
        }
        directory = tmp_path_factory.mktemp(host)
        made[host] = Daemon(directory, rabbitmq_server.transport_url, config=config).start()
    yield made
    for each in made.values():
        each.signal(signal.SIGTERM)  # all at once
    for each in made.values():
        each.close()


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory, rabbitmq_server, agents):
    for each in agents.values():
        each.wait_ready()
    directory = tmp_path_factory.mktemp("scheduler")
    config = {"scheduler": {"start_grace": 300}}
    with SchedulerServer(directory, rabbitmq_server.transport_url, config=config) as made:
        yield made.wait_ready()


@pytest.fixture(scope="module")
def bus(scheduler, rabbitmq_server):
    made = SchedulerBus(rabbitmq_server.transport_url)
    yield made
    made.close()


def hosts(scheduler):
    return {each["host"]: each for each in scheduler.read("hosts")["hosts"]}


def test_ready_means_that_all_agents_have_reported(scheduler):
    assert {name: each["up"] for name, each in hosts(scheduler).items()} == dict.fromkeys(
        HOSTS, True
    )
    assert scheduler.read("ready")["complete"] is True


def test_hosts_have_the_urls_of_the_pages_of_their_agents(scheduler):
    urls = {name: each["page_url"] for name, each in hosts(scheduler).items()}
    assert urls == {name: f"https://{name}.example:8775/" for name in HOSTS}


def test_claim_with_the_selected_operation_id_is_counted_once(scheduler, bus, agents):
    instance = {"uuid": uid(), "flavor": spec()["flavor"]}
    reply = bus.call("select_destinations", spec(), [instance["uuid"]], alternates=True)
    selected = reply["selections"][0]["selected"]
    host = selected["host"]
    before = hosts(scheduler)[host]["revision"]
    api = AgentAPI(bus.transport, host, timeout=30)
    claim = api.instance_claim(
        RequestContext(overwrite=False), instance, operation_id=selected["operation_id"]
    )
    assert claim["uuid"] == selected["operation_id"]

    wait_until(lambda: hosts(scheduler)[host]["revision"] > before)
    wait_until(lambda: scheduler.read("hosts", host)["host"]["instances"] == [instance["uuid"]])
    assert hosts(scheduler)[host]["vcpus_used"] == 1
    api.abort_instance_claim(RequestContext(overwrite=False), claim["uuid"])
    wait_until(lambda: hosts(scheduler)[host]["vcpus_used"] == 0)
    wait_until(lambda: scheduler.read("hosts", host)["host"]["instances"] == [])


def test_restarted_scheduler_asks_all_agents(scheduler, bus, agents):
    scheduler.kill()
    scheduler.start().wait_ready()
    assert set(hosts(scheduler)) == set(HOSTS)


def test_restarted_agent_is_known_again(scheduler, bus, agents):
    epoch = hosts(scheduler)["cn2"]["epoch"]
    agents["cn2"].kill()
    agents["cn2"].start().wait_ready()
    wait_until(lambda: hosts(scheduler)["cn2"]["epoch"] > epoch and hosts(scheduler)["cn2"]["up"])


def reports(agent, outcome):
    """The number of an agent's reports with this outcome."""
    return agent.metrics().get(f'rtagent_host_reports_total{{outcome="{outcome}"}}', 0.0)


def test_broker_that_hangs_holds_up_no_thread_and_reports_follow(agents, rabbitmq_server):
    agent, before = agents["cn1"], reports(agents["cn1"], "dropped")
    rabbitmq_server.freeze()
    try:
        wait_until(lambda: reports(agent, "dropped") > before)
        for thread in ("rpc-probe", "host-lock"):
            late = agent.metrics()[f'rtagent_thread_late_seconds{{thread="{thread}"}}']
            assert late < LATEST, thread
        assert agent.read("live")["live"]
    finally:
        rabbitmq_server.thaw()
    before = reports(agent, "sent")
    wait_until(lambda: reports(agent, "sent") > before)


def test_agent_that_stops_says_so(scheduler, agents):
    assert agents["cn2"].terminate() == 0
    wait_until(lambda: hosts(scheduler)["cn2"]["why_not"] == "the agent stops")
    assert not hosts(scheduler)["cn2"]["up"]
