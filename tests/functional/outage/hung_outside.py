"""An agent whose external services can hang: Placement, libvirt, and callers that wait for both."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.errors import HypervisorUnavailable, NodeNotReady
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.transport import get_transport
from tests.servers import Libvirtd, Placement, RabbitMQ, Server
from tests.servers.daemon import Daemon
from tests.support.hosts import uid

CONTEXT = RequestContext(roles=["operator"], overwrite=False)
#: Seconds within which a call that needs no external service is answered. A machine may stand
#: still for some of them; a call that queues behind others that wait takes longer.
PROMPT = 15.0
#: How many calls wait for an external service at once.
CALLERS = 256
#: Enough for the small claims of a run.
ROOM = {"cpu_allocation_ratio": 1000, "ram_allocation_ratio": 1000, "reserved_host_memory_mb": 0}


class HungOutside:
    """A ready daemon with its external services.

    :ivar api: the client of the calls that must not wait; each call is answered within
        `PROMPT` seconds at its only attempt, or fails.
    """

    def __init__(
        self, directory: Path, rabbitmq: RabbitMQ, libvirtd: Libvirtd, placement: Placement
    ) -> None:
        self.libvirtd, self.placement = libvirtd, placement
        self._stack = contextlib.ExitStack()
        self._url = rabbitmq.transport_url
        self.daemon = Daemon(
            directory,
            self._url,
            uri=libvirtd.uri,
            config={
                # Fewer threads than calls that wait: the agent must not use so few.
                "DEFAULT": {"host": f"hung-{uid()}", "executor_thread_pool_size": 4, **ROOM},
                "placement": placement.login,
            },
        )
        self._stack.callback(self.daemon.close)
        self._threads = self._stack.enter_context(ThreadPoolExecutor(CALLERS))
        self.api = self._client(PROMPT)
        self._others = self._client(120.0)
        self.daemon.start().wait_ready()

    def start_calls(self, method: str, number: int) -> list[Future[Any]]:
        """Start so many calls of a method, each on a thread of its own."""
        return [self.start(lambda: self.call_waiting(method)) for _ in range(number)]

    def start(self, function: Callable[[], object]) -> Future[Any]:
        """Run a function on a thread of its own."""
        return self._threads.submit(function)

    def call_waiting(self, method: str) -> None:
        """Call a method that waits for an external service."""
        getattr(self._others, method)(CONTEXT)

    @contextlib.contextmanager
    def frozen(self, *servers: Server) -> Iterator[None]:
        """Freeze these servers during the block."""
        with contextlib.ExitStack() as thaw:
            for server in servers:
                server.freeze()
                thaw.callback(server.thaw)
            yield

    @contextlib.contextmanager
    def mute_readers(self, number: int) -> Iterator[None]:
        """Run so many clients of the read API that never read the answer, and as many that never
        finish their request."""
        with contextlib.ExitStack() as stack:
            for said in (b"GET /metrics HTTP/1.1\r\nHost: agent\r\n\r\n", b"GET /metr"):
                for _ in range(number):
                    client = stack.enter_context(socket.socket(socket.AF_UNIX))
                    client.settimeout(5)
                    with contextlib.suppress(OSError):  # refused: the agent bounds its clients
                        client.connect(self.daemon.address.path)
                        client.sendall(said)
            yield

    def claim(self) -> dict[str, Any]:
        instance = {"uuid": uid(), "flavor": {"vcpus": 1, "memory_mb": 1}}
        made: dict[str, Any] = self.api.instance_claim(CONTEXT, instance)
        return made

    def answer_claim(self) -> None:
        """Claim. A refusal is an answer: without libvirt nothing is granted."""
        with contextlib.suppress(HypervisorUnavailable, NodeNotReady):
            self.claim()

    def call_everything(self, claim: dict[str, Any]) -> None:
        """Make every kind of call that needs no external service: the steps of a claim, a move
        away, and reads."""
        migration = {"uuid": uid(), "migration_type": "migration"}
        self.api.get_claim(CONTEXT, claim["uuid"])
        self.api.renew_claim(CONTEXT, claim["uuid"])
        self.api.activate_claim(CONTEXT, claim["uuid"])
        self.api.start_move_out(CONTEXT, claim["owner_id"], migration)
        self.api.drop_move_claim_at_source(CONTEXT, claim["owner_id"], migration)
        self.api.release_claim(CONTEXT, claim["uuid"])
        self.api.get_claims_for_host(CONTEXT)
        self.api.get_node(CONTEXT)
        self.api.ping(CONTEXT)

    def ready(self) -> bool:
        """Whether the daemon grants claims."""
        return bool(self.daemon.read("ready")["ready"])

    def close(self) -> None:
        self._stack.close()

    def _client(self, timeout: float) -> AgentAPI:
        # Each call of `start_calls` has a connection while it is sent.
        file = self.daemon.directory / "client.conf"
        file.write_text(f"[oslo_messaging_rabbit]\nrpc_conn_pool_size = {CALLERS}\n")
        conf = cfg.ConfigOpts()
        conf([], project="rtagent", default_config_files=[str(file)])
        transport = get_transport(conf, self._url)
        self._stack.callback(transport.cleanup)
        return AgentAPI(transport, self.daemon.host, timeout=timeout, attempts=1)
