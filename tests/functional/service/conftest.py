"""A client of the daemon under test, over the message broker."""

import pytest

from rtagent.rpc.client import AgentAPI
from tests.servers.daemon import Daemon


@pytest.fixture
def agent(daemon: Daemon, transport: object) -> AgentAPI:
    return AgentAPI(transport, daemon.host, timeout=60)
