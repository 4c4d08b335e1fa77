"""The RPC server on a bus within this process: its exchange, and its threads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.conf import load
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.server import RpcServer
from rtagent.rpc.serving import InFlight
from rtagent.rpc.transport import get_transport
from tests.support.rpc import VERSION, Agent


def transport(directory, exchange="one"):
    file = directory / f"{exchange}.conf"
    file.write_text(f"[DEFAULT]\ntransport_url = fake://\ncontrol_exchange = {exchange}\n")
    conf = load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd")
    return get_transport(conf)


@contextmanager
def served(agent: Agent, directory) -> Iterator[AgentAPI]:
    """Serve the agent, and yield a client."""
    in_flight = InFlight(agent.clock)
    parts = (in_flight, agent.clock, agent.telemetry)
    server = RpcServer(transport(directory), "cn1", agent.endpoint, *parts)
    server.start()
    try:
        assert server.wait_started(60)
        yield AgentAPI(transport(directory), "cn1", timeout=60, attempts=1)
    finally:
        server.stop(60)


def test_a_caller_reaches_the_agents_of_its_exchange(agent: Agent, tmp_path):
    with served(agent, tmp_path) as same:
        assert same.ping(RequestContext())["version"] == VERSION
        other = AgentAPI(transport(tmp_path, "two"), "cn1", timeout=1, attempts=1)
        with pytest.raises(oslo_messaging.MessagingTimeout):
            other.ping(RequestContext())


def test_calls_one_after_the_other_share_threads(agent: Agent, tmp_path):
    """A server that is probed all the time must not fill its pool: a thread costs memory."""
    with served(agent, tmp_path) as client:
        client.ping(RequestContext())
        before = threading.active_count()
        for _ in range(30):
            client.ping(RequestContext())
        assert threading.active_count() < before + 10
