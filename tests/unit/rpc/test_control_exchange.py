"""[DEFAULT] control_exchange: callers reach the servers of their own exchange only."""

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.conf import load
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.in_flight import InFlight
from rtagent.rpc.server import RpcServer
from rtagent.rpc.transport import get_transport
from tests.support.rpc import VERSION, Agent


def transport(directory, exchange):
    file = directory / f"{exchange}.conf"
    file.write_text(f"[DEFAULT]\ntransport_url = fake://\ncontrol_exchange = {exchange}\n")
    conf = load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd")
    return get_transport(conf)


def test_a_caller_reaches_the_agents_of_its_exchange(agent: Agent, tmp_path):
    made = RpcServer(
        transport(tmp_path, "one"),
        "cn1",
        agent.endpoint,
        InFlight(agent.clock),
        agent.clock,
        agent.telemetry,
    )
    made.start()
    try:
        assert made.wait_started(60)
        same = AgentAPI(transport(tmp_path, "one"), "cn1", timeout=60, attempts=1)
        assert same.ping(RequestContext())["version"] == VERSION
        other = AgentAPI(transport(tmp_path, "two"), "cn1", timeout=1, attempts=1)
        with pytest.raises(oslo_messaging.MessagingTimeout):
            other.ping(RequestContext())
    finally:
        made.stop(60)
