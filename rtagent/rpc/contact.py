"""Contact: the first one that a transport makes with its broker, with an end to the wait.

oslo.messaging makes its queue for answers at the first call, and waits for the broker for as long
as that takes. All later waits are bounded by a client's ``retry``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from weakref import WeakKeyDictionary

import oslo_messaging

from rtagent.errors import RtAgentError


class Contact:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._knocking: Future[None] | None = None
        self._made = False

    def make(self, knock: Callable[[], object], seconds: float) -> None:
        """Return when the broker was reached once.

        :param knock: any call; its answer does not matter. One thread makes it for all who wait.
        :raises MessageDeliveryFailure: it was not reached in time, or refuses.
        """
        if self._made:
            return
        with self._lock:
            if self._knocking is None or self._knocking.done():
                self._knocking = Future()
                _in_background(self._knock, knock, self._knocking)
            knocking = self._knocking
        if not wait([knocking], seconds).done:
            raise oslo_messaging.MessageDeliveryFailure(
                f"the message broker was not reached within {seconds:g} s"
            )
        knocking.result()

    def _knock(self, knock: Callable[[], object], knocking: Future[None]) -> None:
        try:
            knock()
        except (RtAgentError, oslo_messaging.MessagingException):
            pass  # of a broker that was reached
        except Exception as error:  # of the libraries beneath: a password that is refused, say
            why = f"the message broker cannot be used: {error}"
            knocking.set_exception(oslo_messaging.MessageDeliveryFailure(why))
            return
        self._made = True
        knocking.set_result(None)


_contacts: WeakKeyDictionary[oslo_messaging.RPCTransport, Contact] = WeakKeyDictionary()
_lock = threading.Lock()


def contact(transport: oslo_messaging.RPCTransport) -> Contact:
    """The transport's, shared by its clients."""
    with _lock:
        return _contacts.setdefault(transport, Contact())


def _in_background(run: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=run, args=arguments, name="rpc-contact", daemon=True).start()
