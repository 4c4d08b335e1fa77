"""An agent on a message bus, and its clients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging
import pytest
from oslo_context.context import RequestContext

from rtagent.conf.rpc import Rpc
from rtagent.embedded import SystemClock
from rtagent.ports import Store
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.server import RpcServer
from tests.servers import RabbitMQ
from tests.support.hosts import uid
from tests.support.rpc import Agent
from tests.support.workload.deployment import open_transport

Options = dict[str, Any]
#: Attempts to connect follow each other soon: oslo.messaging would pause for up to 30 s.
BRISK: Options = {"rabbit_interval_max": 1}


class Station:
    """An agent that serves a host of its own on the bus.

    :ivar context: for the calls of the tests.
    """

    def __init__(
        self,
        url: str,
        options: Options | None = None,
        wrap: Callable[[Store], Store] = lambda store: store,
        bounds: Rpc | None = None,
    ) -> None:
        """:param options: of ``[oslo_messaging_rabbit]``. :param bounds: see `Agent`."""
        self.url, self.options = url, {**BRISK, **(options or {})}
        self.host = f"host-{uid()}"
        self._transports: list[oslo_messaging.RPCTransport] = []
        self.agent = Agent(SystemClock(), wrap, bounds)
        self.context = RequestContext(user_id="alice", roles=["operator"], overwrite=False)
        self.server = RpcServer(
            self.transport(),
            self.host,
            self.agent.endpoint,
            self.agent.in_flight,
            self.agent.clock,
            self.agent.telemetry,
        )

    def start(self) -> Self:
        """Serve, and wait until that has begun."""
        self.server.start()
        assert self.server.wait_started(120)
        return self

    def transport(self) -> oslo_messaging.RPCTransport:
        """A new transport, as another process would have one."""
        self._transports.append(open_transport(self.url, **self.options))
        return self._transports[-1]

    def client(self, **options: Any) -> AgentAPI:
        return AgentAPI(self.transport(), self.host, **{"timeout": 60, **options})

    def raw_call(self, method: str, document: Mapping[str, Any]) -> Any:
        """A call that `AgentAPI` would not make."""
        return self._raw.call(self.context, method, **document)

    @functools.cached_property
    def _raw(self) -> oslo_messaging.RPCClient:
        return oslo_messaging.get_rpc_client(
            self.transport(),
            oslo_messaging.Target(topic="rtagent", server=self.host, version="1.0"),
            serializer=ContextSerializer(),
            timeout=60,
        )

    def health(self) -> str:
        """The status of the agent's part ``rpc``, or "" before its first report."""
        checks = self.agent.telemetry.checks()
        return next((str(check.status) for check in checks if check.part == "rpc"), "")

    def close(self) -> None:
        """Stop the server and close the clients' connections, unless the broker is down."""
        if self.server.stop(10):
            for transport in self._transports[1:]:
                transport.cleanup()


@pytest.fixture
def station_on() -> Iterator[Callable[..., Station]]:
    """Makes stations, which are not started."""
    made: list[Station] = []

    def make(url: str, *arguments: Any, **named: Any) -> Station:
        made.append(Station(url, *arguments, **named))
        return made[-1]

    yield make
    for station in made:
        station.close()


@pytest.fixture
def station(rabbitmq: RabbitMQ, station_on: Callable[..., Station]) -> Station:
    """A station whose server has started."""
    return station_on(rabbitmq.transport_url).start()


@pytest.fixture(scope="module")
def shared_station(rabbitmq_server: RabbitMQ) -> Iterator[Station]:
    """A station for all tests of a module."""
    station = Station(rabbitmq_server.start().transport_url).start()
    yield station
    station.close()
