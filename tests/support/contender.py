"""An agent as far as it takes the lock of its host name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from oslo_config import cfg

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend
from rtagent.rpc.duplicates import AgentIdentity
from rtagent.rpc.host_lock import Attempt, HostLock, host_lock
from rtagent.rpc.transport import get_transport
from tests.support.hosts import uid


class Contender:
    """An agent that wants the lock of a host.

    :ivar met: the agents that asked it. :ivar transport: its transport.
    """

    def __init__(self, url: str, host: str) -> None:
        conf = cfg.ConfigOpts()
        conf([])
        self.transport = transport = get_transport(conf, url)
        conf.set_override("transport_url", url)
        self.me = AgentIdentity(agent_uuid=uid(), node_uuid=uid(), node="n", state_path="/s")
        self.met: list[AgentIdentity] = []
        lock = host_lock(transport, host, self.me, self.met.append)
        assert lock is not None
        self.lock: HostLock = lock

    def attempt(self) -> Attempt:
        return self.lock.take().attempt

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Keep the lock during the block, as the agent's thread does."""
        stop = threading.Event()

        def keep() -> None:
            while not stop.is_set():
                assert self.lock.keep(0.1)

        thread = threading.Thread(target=keep)
        thread.start()
        yield
        stop.set()
        thread.join()
