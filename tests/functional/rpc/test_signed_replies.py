"""Replies that a server signs, and answers of peers that are not that server."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.embedded import SystemClock
from rtagent.errors import ClaimNotFound, InvalidRequest
from rtagent.rpc import AGENT, VERSIONS
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.errors import ReplyNotVerified
from rtagent.rpc.server import RpcServer
from rtagent.rpc.transport import get_transport
from rtagent.rpc.trust.credentials import PrivateKey
from rtagent.rpc.trust.token import ReplyClaims, arguments_digest
from tests.support.hosts import uid
from tests.support.rpc import Agent
from tests.support.trust import KeyFiles

CONTEXT = RequestContext(user_id="alice", overwrite=False)
URL = "fake://"


def transport(options: dict[str, object]) -> oslo_messaging.RPCTransport:
    conf = cfg.ConfigOpts()
    conf([])
    made = get_transport(conf, URL)
    for name, value in options.items():
        conf.set_override(name, value, group="rpc")
    return made


class Peer:
    """Answers the calls of a host with what a test says. :ivar reply: made of the context and the
    arguments of each call. :ivar pings: the contexts of the pings.
    """

    def __init__(self, host: str, reply: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
        self.reply = reply
        self.pings: list[dict[str, Any]] = []
        self._server = oslo_messaging.get_rpc_server(
            transport({}),
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
    for host in ("cn1", "cn2", "peer", "revoked"):
        files.add(host, "agent", host=host)
    files.add("nova", "conductor")
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
                transport(options),
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
    known = transport(files.options(**options.pop("rpc", {})))
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


def test_key_of_another_host_or_without_the_role_is_refused(files: KeyFiles, serve):
    api = client(files, serve("cn2", "cn3"), verify=True)
    with pytest.raises(ReplyNotVerified, match="the key cn2 is of the host cn2"):
        api.ping(CONTEXT)
    api = client(files, serve("nova", "cn4"), verify=True)
    with pytest.raises(ReplyNotVerified, match="the key nova does not have the role agent"):
        api.ping(CONTEXT)


def test_revoked_key_of_a_server_is_refused(files: KeyFiles, serve):
    serve("revoked", "revoked")
    files.revoke("revoked")
    with pytest.raises(ReplyNotVerified, match="keys_file does not have the key that it names"):
        client(files, "revoked", verify=True).ping(CONTEXT)


def raise_claim_not_found(context: object, arguments: object) -> Any:
    raise ClaimNotFound(claim_uuid="x")


def forged(name: str, context: dict[str, Any], arguments: dict[str, Any]) -> dict[str, str]:
    """A reply to this call, by another key of this name."""
    said = ReplyClaims(
        aud=AGENT,
        method="get_claim",
        digest=arguments_digest(arguments),
        nonce=context["reply_nonce"],
        body=hashlib.sha256(b"{}").hexdigest(),
    )
    return {"token": PrivateKey.generate(name).token(said), "body": "{}"}


@pytest.mark.parametrize(
    "reply",
    [
        lambda context, arguments: {"uuid": arguments["claim_uuid"]},
        lambda context, arguments: None,
        lambda context, arguments: forged("peer", context, arguments),
        lambda context, arguments: forged("nobody", context, arguments),
        raise_claim_not_found,
    ],
    ids=["plain", "null", "forged", "unknown key", "error"],
)
def test_impostor_is_recognised(files: KeyFiles, peer: Peer, reply: Callable[..., Any]):
    peer.reply = reply
    with pytest.raises(ReplyNotVerified, match="to get_claim is not verified"):
        client(files, "peer", verify=True).get_claim(CONTEXT, uid())


@pytest.mark.parametrize("recorded_for", ["another-nonce", "other-arguments"])
def test_signed_reply_to_another_call_is_refused(
    files: KeyFiles, serve, peer: Peer, recorded_for: str
):
    """An impostor passes on what the agent signs."""
    real = oslo_messaging.get_rpc_client(
        transport({}),
        oslo_messaging.Target(topic=AGENT, server=serve("peer", recorded_for), version="1.0"),
        timeout=60,
    )

    def replay(context: dict[str, Any], arguments: dict[str, Any]) -> Any:
        if recorded_for == "another-nonce":
            context = {**context, "reply_nonce": "0" * 32}
        else:
            arguments = {**arguments, "node": "peer"}
        return real.call(context, "get_claim", **arguments)

    peer.reply = replay
    with pytest.raises(ReplyNotVerified, match="not that of the key peer for this call"):
        client(files, "peer", verify=True).get_claim(CONTEXT, uid())


def test_what_no_server_can_answer_is_not_an_impostor(files: KeyFiles):
    with pytest.raises(oslo_messaging.MessagingTimeout):
        AgentAPI(transport(files.options()), "gone", timeout=1, attempts=1, verify=True).ping(
            CONTEXT
        )
