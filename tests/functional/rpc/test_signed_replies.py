"""Replies that a server signs, and answers of peers that are not that server."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging
import pytest
from oslo_context.context import RequestContext

from rtagent.embedded import SystemClock
from rtagent.errors import ClaimNotFound, InvalidRequest
from rtagent.rpc import AGENT, VERSIONS
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.errors import ReplyNotVerified
from rtagent.rpc.server import RpcServer
from tests.support.hosts import uid
from tests.support.rpc import Agent
from tests.support.trust import KeyFiles
from tests.support.workload.deployment import open_transport

CONTEXT = RequestContext(user_id="alice", overwrite=False)
URL = "fake://"


class Peer:
    """Answers the calls of a host with what a test says. :ivar reply: made of the context and the
    arguments of each call. :ivar pings: the contexts of the pings.
    """

    def __init__(self, host: str, reply: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
        self.reply = reply
        self.pings: list[dict[str, Any]] = []
        self._server = oslo_messaging.get_rpc_server(
            open_transport(URL),
            oslo_messaging.Target(topic=AGENT, server=host, version=VERSIONS[AGENT]),
            [self],
            executor="threading",
            access_policy=oslo_messaging.DefaultRPCAccessPolicy,
        )
        self._server.start()

    target = oslo_messaging.Target(version=VERSIONS[AGENT])

    def get_claim(self, context: dict[str, Any], **arguments: Any) -> Any:
        return self.reply(context, arguments)

    def ping(self, context: dict[str, Any], **arguments: Any) -> Any:
        self.pings.append(context)
        return {}

    def close(self) -> None:
        self._server.stop()
        self._server.wait()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> KeyFiles:
    files = KeyFiles(tmp_path_factory.mktemp("keys"))
    for host in ("cn1", "cn2", "peer"):
        files.add(host, "agent", host=host)
    return files


@pytest.fixture(scope="module")
def serve(files: KeyFiles) -> Iterator[Callable[..., str]]:
    """Starts an agent that signs with a key, on a host; returns the host."""
    servers: list[RpcServer] = []

    def start(key: str | None, host: str) -> str:
        agent = Agent(SystemClock())
        options = {} if key is None else files.options(key)
        servers.append(
            RpcServer(
                open_transport(URL, options),
                host,
                agent.endpoint,
                agent.in_flight,
                agent.clock,
                agent.telemetry,
            )
        )
        servers[-1].start()
        assert servers[-1].wait_started(120)
        return host

    yield start
    with ThreadPoolExecutor() as pool:  # each one takes a second
        list(pool.map(lambda server: server.stop(10), servers))


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    """A peer that answers for the host ``peer``."""
    peer = Peer("peer", lambda context, arguments: None)
    yield peer
    peer.close()


def client(files: KeyFiles, host: str, **options: Any) -> AgentAPI:
    known = open_transport(URL, files.options(**options.pop("rpc", {})))
    return AgentAPI(known, host, timeout=60, attempts=1, **options)


def test_the_ping_before_the_first_call_says_a_role(files: KeyFiles, peer: Peer):
    client(files, "peer", verify=False).get_claim(CONTEXT, uid())
    assert [each["roles"] for each in peer.pings[-1:]] == [["reader"]]


def test_reply_and_error_of_the_server_are_verified(files: KeyFiles, serve):
    api = client(files, serve("cn1", "cn1"), verify=True)
    claim = api.instance_claim(CONTEXT, {"uuid": uid(), "flavor": {"vcpus": 1, "memory_mb": 64}})
    assert claim["uuid"] in str(api.get_claim(CONTEXT, claim["uuid"]))
    missing = uid()
    with pytest.raises(ClaimNotFound) as refused:
        api.get_claim(CONTEXT, missing)
    assert refused.value.message == ClaimNotFound(**refused.value.kwargs).message
    assert missing in refused.value.message
    with pytest.raises(InvalidRequest):
        api.get_claim(CONTEXT, "not a uuid")
    with pytest.raises(InvalidRequest, match="a number is infinite"):
        api.get_claim(CONTEXT, math.inf)
    assert api.ping(CONTEXT)["host"]


def test_option_makes_every_client_verify(files: KeyFiles, serve):
    rpc = {"verify_replies": True}
    assert client(files, serve("cn1", "cn1"), rpc=rpc).ping(CONTEXT)["host"]
    api = client(files, serve(None, "cn2"), rpc=rpc)
    with pytest.raises(
        ReplyNotVerified, match=r"rtagent\.cn2 to ping .* it is not signed: the server"
    ):
        api.ping(CONTEXT)


def test_key_of_another_host_is_refused(files: KeyFiles, serve):
    api = client(files, serve("cn2", "cn3"), verify=True)
    with pytest.raises(ReplyNotVerified, match="the key cn2 is of the host cn2"):
        api.ping(CONTEXT)


def raise_claim_not_found(context: object, arguments: object) -> Any:
    raise ClaimNotFound(claim_uuid="x")


@pytest.mark.parametrize(
    "reply",
    [
        lambda context, arguments: {"uuid": arguments["claim_uuid"]},
        raise_claim_not_found,
    ],
    ids=["plain", "error"],
)
def test_impostor_is_recognised(files: KeyFiles, peer: Peer, reply: Callable[..., Any]):
    peer.reply = reply
    with pytest.raises(ReplyNotVerified, match="to get_claim is not verified"):
        client(files, "peer", verify=True).get_claim(CONTEXT, uid())


def test_what_no_server_can_answer_is_not_an_impostor(files: KeyFiles):
    with pytest.raises(oslo_messaging.MessagingTimeout):
        known = open_transport(URL, files.options())
        AgentAPI(known, "gone", timeout=1, attempts=1, verify=True).ping(CONTEXT)
