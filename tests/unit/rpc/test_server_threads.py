"""The threads of the RPC server."""

from __future__ import annotations

import threading

import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.conf import load
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.in_flight import InFlight
from rtagent.rpc.server import RpcServer
from rtagent.rpc.transport import get_transport
from tests.support.rpc import Agent


@pytest.fixture
def transport(tmp_path):
    file = tmp_path / "rtagent.conf"
    file.write_text("[DEFAULT]\ntransport_url = fake://\n")
    return get_transport(load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd"))


def test_calls_one_after_the_other_share_threads(agent: Agent, transport):
    """A server that is probed all the time must not fill its pool: a thread costs memory."""
    server = RpcServer(
        transport, "cn1", agent.endpoint, InFlight(agent.clock), agent.clock, agent.telemetry
    )
    server.start()
    try:
        assert server.wait_started(60)
        client = AgentAPI(transport, "cn1", timeout=60, attempts=1)
        client.ping(RequestContext())
        before = threading.active_count()
        for _ in range(30):
            client.ping(RequestContext())
        assert threading.active_count() < before + 10
    finally:
        server.stop(60)
