"""An agent on a bus, and its client."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging, for which it chooses threads

# isort: split
import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.clock import SystemClock
from rtagent.ports import Store
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.server import RpcServer
from rtagent.rpc.transport import get_transport
from tests.builders import uid
from tests.rpc_agents import Agent

Options = dict[str, Any]


class Station:
    """An agent that serves a host of its own on the bus.

    :ivar context: of the calls that `api` makes for the tests.
    """

    def __init__(
        self,
        url: str,
        options: Options | None = None,
        wrap: Callable[[Store], Store] = lambda store: store,
    ) -> None:
        """:param options: of ``[oslo_messaging_rabbit]``."""
        self.url, self.options = url, options or {}
        self.host = f"host-{uid()}"
        self._transports: list[oslo_messaging.RPCTransport] = []
        self.agent = Agent(SystemClock(), wrap)
        self.context = RequestContext(user_id="alice", overwrite=False)
        self.server = RpcServer(
            self.transport(),
            self.host,
            self.agent.endpoint,
            self.agent.in_flight,
            self.agent.clock,
            self.agent.telemetry,
        )

    def transport(self) -> oslo_messaging.RPCTransport:
        """A new one, as a process of its own would have."""
        conf = cfg.ConfigOpts()
        conf([])
        transport = get_transport(conf, self.url)
        for name, value in self.options.items():
            conf.set_override(name, value, group="oslo_messaging_rabbit")
        self._transports.append(transport)
        return transport

    def client(self, **options: Any) -> AgentAPI:
        return AgentAPI(self.transport(), self.host, **{"timeout": 20, **options})

    def raw_call(self, method: str, document: Mapping[str, Any]) -> Any:
        """A call of another client, which says whatever it likes."""
        return self._raw.call(self.context, method, **document)

    @functools.cached_property
    def _raw(self) -> oslo_messaging.RPCClient:
        return oslo_messaging.get_rpc_client(
            self.transport(),
            oslo_messaging.Target(topic="rtagent", server=self.host, version="1.0"),
            serializer=ContextSerializer(),
            timeout=20,
        )

    def health(self) -> str:
        """The status of the agent's part ``rpc``, or "" while it has said nothing."""
        checks = self.agent.telemetry.checks()
        return next((str(check.status) for check in checks if check.part == "rpc"), "")

    def close(self) -> None:
        """Stop the server and let the clients' connections go, unless the broker is away."""
        if self.server.stop(10):
            for transport in self._transports[1:]:
                transport.cleanup()


@pytest.fixture
def station_on() -> Iterator[Callable[..., Station]]:
    """Makes stations; not started yet."""
    made: list[Station] = []

    def make(url: str, *arguments: Any, **named: Any) -> Station:
        made.append(Station(url, *arguments, **named))
        return made[-1]

    yield make
    for station in made:
        station.close()


@pytest.fixture(params=["fake", "rabbitmq"])
def bus(request: pytest.FixtureRequest) -> str:
    """The URL of a bus: in this process, or a real broker."""
    if request.param == "fake":
        return "fake://"
    return str(request.getfixturevalue("rabbitmq").transport_url)


@pytest.fixture
def station(bus: str, station_on: Callable[..., Station]) -> Station:
    """A station that serves."""
    station = station_on(bus)
    station.server.start()
    assert station.server.wait_started(30)
    return station


@pytest.fixture(scope="module", params=["fake", "rabbitmq"])
def shared_station(request: pytest.FixtureRequest) -> Iterator[Station]:
    """A station for many calls."""
    url = "fake://"
    if request.param == "rabbitmq":
        url = request.getfixturevalue("rabbitmq_server").start().transport_url
    station = Station(url)
    station.server.start()
    assert station.server.wait_started(30)
    yield station
    station.close()
