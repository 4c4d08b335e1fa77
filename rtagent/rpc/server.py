"""RpcServer: oslo.messaging's server, started and stopped without blocking the agent.

Each call of oslo.messaging waits for the broker without limit, so each one has a thread of its own.
Once connected, oslo.messaging reconnects by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import oslo_messaging
from oslo_messaging.rpc.server import RPCServer

from rtagent.ports import Clock, Reporter
from rtagent.rpc import AGENT, amqp_transport, driver
from rtagent.rpc.broker.refusals import explained
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.envelope import REASONS, RefusedMessage
from rtagent.rpc.incoming import OVERLOAD, REFUSED, CallMonitor, Incoming, LateReplies, Workers
from rtagent.rpc.serving import THREADS, InFlight
from rtagent.rpc.trust.credentials import credentials
from rtagent.rpc.trust.signed_reply import SignedReplies

#: The part of the agent's health that this reports.
PART = "rpc"
#: Seconds within which a connection to a running broker succeeds.
CONNECT_TIME = 2.0
#: Seconds between two attempts to connect to a broker that refuses.
RETRY_INTERVAL = 5.0
#: The output of the part's health while the broker neither accepts nor refuses a connection.
WAITING = "waiting for the message broker"
#: Seconds between two log lines about what a stop waits for.
LOG_INTERVAL = 3.0
UNKNOWN = "a call was refused, because this release does not have its method or version"


class Dispatcher(oslo_messaging.RPCDispatcher):
    """Calls the method of each message, without a thread or a traceback of its own."""

    def __init__(
        self, endpoint: object, monitor: CallMonitor, replies: SignedReplies, reporter: Reporter
    ) -> None:
        policy = oslo_messaging.ExplicitRPCAccessPolicy  # the methods of the table only
        super().__init__([endpoint], ContextSerializer(), policy)
        self._monitor, self._replies = monitor, replies
        self._reporter = reporter.named(__name__)

    def dispatch(self, incoming: Incoming) -> Any:
        """Serve a call and return its reply."""
        return self._replies.serve(incoming, lambda: self._dispatch(incoming))

    def _dispatch(self, incoming: Incoming) -> Any:
        try:
            with self._monitor.watch(incoming, incoming.caller_timeout):
                return super().dispatch(incoming)
        except (oslo_messaging.NoSuchMethod, oslo_messaging.UnsupportedVersion) as error:
            self._reporter.counted("rpc", type(error).__name__)
            # Without the name: so the log throttle recognises a repetition.
            self._reporter.log("warning", UNKNOWN)
            # The caller gets the error itself; oslo.messaging logs no traceback of it.
            raise oslo_messaging.ExpectedException() from error


class RpcServer:
    """Serves one host, once.

    The broker gets the acknowledgement of a call before the call is dispatched. So a call that is
    in flight when the process dies is not delivered again: its caller repeats it.
    """

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        host: str,
        endpoint: object,
        in_flight: InFlight,
        clock: Clock,
        reporter: Reporter,
        topic: str = AGENT,
    ) -> None:
        """:param host: the name of the server. :param endpoint: has the methods, see `Endpoint`."""
        self._in_flight, self._clock = in_flight, clock
        self._reporter = reporter.named(__name__)
        self._transport = transport
        signed = SignedReplies(credentials(transport), topic)
        self._dispatcher = Dispatcher(endpoint, CallMonitor(clock, reporter), signed, reporter)
        self._replies = LateReplies(clock, reporter)
        self._target = oslo_messaging.Target(topic=topic, server=host)
        self._server: oslo_messaging.RPCServer | None = None
        self._refusal = ""
        for reason in (*REASONS, OVERLOAD):
            self._reporter.counted(REFUSED, reason, 0)
        self._started, self._stop_requested = threading.Event(), threading.Event()
        self._starter = _thread("rpc-start", self._start)
        self._stopper = _thread("rpc-stop", self._stop)

    def start(self) -> None:
        """Start to serve as soon as the broker accepts a connection. Returns at once. Idempotent.

        :raises RuntimeError: this process has loaded kombu's transport before this package's.
        """
        if not amqp_transport.installed():
            raise RuntimeError("rtagent.rpc.transport must be used before any connection by kombu")
        if self._starter.ident is None:
            amqp_transport.subscribe(self._refused)
            self._starter.start()

    def wait_started(self, timeout: float) -> bool:
        """Wait until calls are served, for `timeout` seconds at most. Return whether they are
        served.
        """
        return self._started.wait(timeout)

    def stop(self, timeout: float) -> bool:
        """Accept no more calls, finish those in flight, and send their replies.

        :param timeout: seconds.
        :returns: False if the broker, or a call, took longer: the threads still run, and the
            process should end without waiting for them.
        """
        deadline = self._clock.monotonic() + timeout
        self._stop_requested.set()
        if self._stopper.ident is None:
            self._stopper.start()
        while self._stopper.is_alive():
            left = deadline - self._clock.monotonic()
            if left <= 0:
                self._reporter.log("warning", f"gave up {self._waiting_for()}")
                return False
            self._stopper.join(min(LOG_INTERVAL, left))
            if self._stopper.is_alive():
                self._reporter.log("info", f"the RPC server stops: {self._waiting_for()}")
        return True

    def _start(self) -> None:
        # Not with `retrying`, whose sleep a stop could not interrupt.
        while not self._stop_requested.is_set():
            connecting = _thread("rpc-connect", self._connect)
            connecting.start()
            connecting.join(CONNECT_TIME)
            while connecting.is_alive():
                error = amqp_transport.connection_error()
                why = f"{WAITING}: {explained(error)}" if error else WAITING
                self._reporter.health(PART, "warn", why)
                connecting.join(CONNECT_TIME)
            if self._server is not None:
                self._reporter.health(PART, "pass")
                self._started.set()
                return
            self._reporter.health(PART, "fail", f"the message broker refuses: {self._refusal}")
            self._stop_requested.wait(RETRY_INTERVAL)

    def _connect(self) -> None:
        server = RPCServer(self._transport, self._target, self._dispatcher)
        workers = partial(Workers, replies=self._replies, reporter=self._reporter)
        driver.use_executor(server, workers)
        try:
            threads = max(THREADS, server.conf.executor_thread_pool_size)
            server.start(override_pool_size=threads)
        except Exception as error:  # any library error: reported, retried
            self._refusal = explained(error)
        else:
            self._server = server

    def _stop(self) -> None:
        if self._starter.ident is not None:
            self._starter.join()
        if self._server is not None:
            self._server.stop()
            self._server.wait()
        self._replies.stop()
        amqp_transport.unsubscribe(self._refused)

    def _refused(self, refusal: RefusedMessage) -> None:
        self._reporter.counted(REFUSED, refusal.reason)
        self._reporter.log("warning", f"a message was refused: {refusal}")

    def _waiting_for(self) -> str:
        if self._in_flight:
            return f"waiting for {self._in_flight}"
        return WAITING


def _thread(name: str, run: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=run, name=name, daemon=True)
