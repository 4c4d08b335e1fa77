"""BrokerProbe: bounds the wait for a transport's first connection to its broker.

oslo.messaging creates its reply queue at the first call and waits for the broker without limit. All
later waits are bounded by the client's ``retry``. So the first call of a transport is a probe in
its own thread, and the callers wait for the probe with a timeout.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from weakref import WeakKeyDictionary

import oslo_messaging

from rtagent.errors import RtAgentError
from rtagent.rpc.broker.refusals import explained


class BrokerProbe:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Future[None] | None = None
        self._reached = False

    def ensure_reached(self, call: Callable[[], object], seconds: float) -> None:
        """Return when the transport has reached its broker at least once.

        :param call: any call; its reply is ignored. One thread makes it for all waiting callers.
        :raises MessageDeliveryFailure: the broker was not reached in time, or refuses.
        """
        if self._reached:
            return
        with self._lock:
            if self._running is None or self._running.done():
                running = Future[None]()
                threading.Thread(
                    target=self._probe, args=(call, running), name="broker-probe", daemon=True
                ).start()
                self._running = running  # only now: it never ends if it cannot be started
            running = self._running
        if not wait([running], seconds).done:
            raise oslo_messaging.MessageDeliveryFailure(
                f"the message broker was not reached within {seconds:g} s"
            )
        running.result()

    def _probe(self, call: Callable[[], object], running: Future[None]) -> None:
        try:
            call()
        except (RtAgentError, oslo_messaging.MessagingException):
            pass  # the broker was reached
        except Exception as error:  # of a library below oslo.messaging, for a wrong password say
            reason = f"the message broker cannot be used: {explained(error)}"
            running.set_exception(oslo_messaging.MessageDeliveryFailure(reason))
            return
        self._reached = True
        running.set_result(None)


_probes: WeakKeyDictionary[oslo_messaging.RPCTransport, BrokerProbe] = WeakKeyDictionary()
_lock = threading.Lock()


def broker_probe(transport: oslo_messaging.RPCTransport) -> BrokerProbe:
    """The probe of a transport, shared by all clients of the transport."""
    with _lock:
        return _probes.setdefault(transport, BrokerProbe())
