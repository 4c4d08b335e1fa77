"""The RPC server: oslo.messaging's, started and stopped without ever blocking the agent.

The library waits for its broker for as long as it takes, in each of its calls; so each is made in a
thread of its own. Once connected, it reconnects by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import oslo_messaging

from rtagent.ports import Clock, Reporter
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.endpoint import Endpoint
from rtagent.rpc.in_flight import InFlight
from rtagent.rpc.methods import TOPIC

#: The part of the agent's health that this reports.
PART = "rpc"
#: Seconds in which a broker that is there is connected to.
MOMENT = 2.0
#: Seconds between two attempts, when the broker is there and refuses.
RETRY = 5.0
#: Seconds between two sentences about what a stop waits for.
PATIENCE = 3.0


class RpcServer:
    """Serves one host, once. The bus acknowledges a call before it is dispatched: one that dies
    with the process is not delivered again, and its caller repeats it."""

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        host: str,
        endpoint: Endpoint,
        in_flight: InFlight,
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        self._in_flight, self._clock, self._reporter = in_flight, clock, reporter
        self._transport, self._endpoint = transport, endpoint
        self._target = oslo_messaging.Target(topic=TOPIC, server=host)
        self._server: oslo_messaging.RPCServer | None = None
        self._refusal = ""
        self._ending = threading.Event()
        self._starting = _in_background("rpc-start", self._start)
        self._stopping = _in_background("rpc-stop", self._stop)

    def start(self) -> None:
        """Begin to serve as soon as the broker is there, and lets us. Returns at once."""
        self._starting.start()

    def wait_started(self, timeout: float) -> bool:
        """Whether calls are served, after waiting at most that many seconds for it."""
        self._starting.join(timeout)
        return not self._starting.is_alive()

    def stop(self, timeout: float) -> bool:
        """Take no more calls, finish those in flight, send their answers.

        :param timeout: seconds.
        :returns: False when the broker, or a call, did not let it end in time: its threads are left
            behind, and the process should end without waiting for them.
        """
        deadline = self._clock.monotonic() + timeout
        self._ending.set()
        if self._stopping.ident is None:
            self._stopping.start()
        while self._stopping.is_alive():
            left = deadline - self._clock.monotonic()
            if left <= 0:
                self._reporter.said("warning", f"gave up {self._waiting_for()}")
                return False
            self._stopping.join(min(PATIENCE, left))
            if self._stopping.is_alive():
                self._reporter.said("info", f"the RPC server stops: {self._waiting_for()}")
        return True

    def _start(self) -> None:
        while not self._ending.is_set():
            connecting = _in_background("rpc-connect", self._connect)
            connecting.start()
            connecting.join(MOMENT)
            if connecting.is_alive():
                self._reporter.health(PART, "warn", "waiting for the message broker")
            connecting.join()
            if self._server is not None:
                self._reporter.health(PART, "pass")
                return
            self._reporter.health(PART, "fail", f"the message broker refuses: {self._refusal}")
            self._ending.wait(RETRY)

    def _connect(self) -> None:
        server = oslo_messaging.get_rpc_server(
            self._transport,
            self._target,
            [self._endpoint],
            serializer=ContextSerializer(),
            access_policy=oslo_messaging.DefaultRPCAccessPolicy,
        )
        try:
            server.start()
        except Exception as error:  # of the library, or of those beneath it: told, and tried again
            self._refusal = str(error)
        else:
            self._server = server

    def _stop(self) -> None:
        if self._starting.ident is not None:
            self._starting.join()
        if self._server is not None:
            self._server.stop()
            self._server.wait()

    def _waiting_for(self) -> str:
        if self._in_flight:
            return f"waiting for {self._in_flight}"
        return "waiting for the message broker"


def _in_background(name: str, run: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=run, name=name, daemon=True)
