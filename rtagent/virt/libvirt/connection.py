"""The connection to libvirt. It is opened when needed and may be lost at any time. Every call is
bounded.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import libvirt

from rtagent.errors import HypervisorUnavailable
from rtagent.ports import NullReporter, Reporter
from rtagent.virt.libvirt import events
from rtagent.virt.libvirt.hostfile import Signature, host_file, signature
from rtagent.virt.libvirt.workers import CallWorkers, LateCall

T = TypeVar("T")

#: Interval of keep-alive messages (seconds) and how many may stay unanswered: a frozen daemon is
#: noticed, and calls that hang in it return, within three intervals.
KEEPALIVE = (3, 2)

#: Seconds for which the close of a lost session waits for its calls that hang. Keep-alive messages
#: end them in less.
SETTLE = 60.0

#: Seconds after which another attempt to connect is made although one has not returned.
REOPEN = 60.0

#: libvirt's connection, and the signature of the simulated host's file before it was opened.
_Connected = tuple[libvirt.virConnect, Signature]

#: Error domains that mean a broken connection, not a problem of the item.
_TRANSPORT = frozenset({libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE})


class Session:
    """One open connection, until it is closed or lost.

    :ivar virt: libvirt's connection. :ivar lost: the reason why it can no longer be used, or "".
    :ivar signature: the signature of the simulated host's file just before the connection was
        opened.
    """

    def __init__(self, virt: libvirt.virConnect, signature: Signature) -> None:
        self.virt, self.signature = virt, signature
        self.lost = ""
        self._events: list[int] = []
        self._device_events: dict[int, int] = {}

    def watch(self, domain: events.Changed | None, closed: Callable[[Session, str], None]) -> None:
        """Subscribe to the connection's close event, and to the events of domains."""
        with optional(self):
            self.virt.setKeepAlive(*KEEPALIVE)
        self.virt.registerCloseCallback(self._on_close, closed)
        if domain is not None:
            self._events = events.subscribe(self.virt, domain)

    def watch_devices(self, changed: events.DeviceChanged) -> None:
        """Subscribe to events of node devices where the driver has them, unless that is done."""
        for event in events.DEVICE_EVENTS:
            if event not in self._device_events:
                with optional(self):
                    callback = events.subscribe_devices(self.virt, event, changed)
                    self._device_events[event] = callback

    def close(self) -> None:
        """Close the connection. Hangs while the other side hangs."""
        for event in self._events:
            with contextlib.suppress(libvirt.libvirtError):
                self.virt.domainEventDeregisterAny(event)
        for event in self._device_events.values():
            with contextlib.suppress(libvirt.libvirtError):
                self.virt.nodeDeviceEventDeregisterAny(event)
        with contextlib.suppress(libvirt.libvirtError):
            self.virt.unregisterCloseCallback()
            self.virt.close()

    def _on_close(
        self, virt: libvirt.virConnect, reason: int, closed: Callable[[Session, str], None]
    ) -> None:
        closed(self, _CLOSED.get(reason, f"reason {reason}"))


_CLOSED = {
    libvirt.VIR_CONNECT_CLOSE_REASON_ERROR: "the connection broke",
    libvirt.VIR_CONNECT_CLOSE_REASON_EOF: "libvirt closed the connection",
    libvirt.VIR_CONNECT_CLOSE_REASON_KEEPALIVE: "libvirt answers no keep-alive message",
    libvirt.VIR_CONNECT_CLOSE_REASON_CLIENT: "it was closed here",
}


class LibvirtConnection:
    """Opens a `Session` and replaces it after a loss.

    :param lost: called once for each session that was lost, with the cause of the targeted audit,
        on any thread; it must return at once. None: nothing is called.
    :param domain: called on the events of domains; None: they are not subscribed to.
    :ivar file: the host file of a simulated host, else None.
    """

    def __init__(
        self,
        uri: str,
        workers: CallWorkers,
        reporter: Reporter | None = None,
        lost: Callable[[str], None] | None = None,
        domain: events.Changed | None = None,
    ) -> None:
        self.uri, self.file = uri, host_file(uri)
        self._workers, self._reporter = workers, (reporter or NullReporter()).named(__name__)
        self._on_lost, self._on_domain = lost, domain
        self._opening = threading.Lock()
        # A simulated host is local: its driver may be slow, but does not hang.
        again = REOPEN if self.file is None else math.inf
        self._connecting = LateCall[_Connected](workers.timeout, again)
        self._session: Session | None = None

    def session(self) -> Session:
        """Return the open session, or open one.

        :raises HypervisorUnavailable: libvirt cannot be reached.
        """
        self.check_file()
        try:
            session, new = self._current()
        except HypervisorUnavailable as error:
            self._reporter.health("hypervisor", "fail", error.message)
            raise
        if new:
            self._reporter.health("hypervisor", "pass")
            self._reporter.log("info", f"connected to {self.uri}")
        return session

    @contextlib.contextmanager
    def using(self, session: Session) -> Iterator[None]:
        """Drop the session when a libvirt call in the block fails or hangs, and after any
        unexpected error: what was read through the session may be incomplete.

        :raises HypervisorUnavailable: a call has failed or hangs.
        """
        try:
            yield
        except (libvirt.libvirtError, TimeoutError) as error:
            self.lose(session, str(error))
            raise HypervisorUnavailable(f"{self.uri}: {error}") from error
        except HypervisorUnavailable:
            raise
        except Exception as error:
            self.lose(session, repr(error))
            raise

    def check_file(self) -> None:
        """Drop the session when the simulated host's file has changed.

        That is no outage: the next session reads the file, or finds that it cannot.
        """
        session = self._session
        if self.file is None or session is None or session.lost:
            return
        if signature(self.file) != session.signature:
            self._drop(session, f"{self.file} has changed", "file")

    def lose(self, session: Session, why: str) -> None:
        """Stop using the session. Any thread may call this; only the first call has an effect."""
        if self._drop(session, why, "connection"):
            self._reporter.health("hypervisor", "fail", why)
            self._reporter.log("warning", f"lost the connection to {self.uri}: {why}")

    def _drop(self, session: Session, why: str, cause: str) -> bool:
        """Return whether the session was in use. :param cause: of the targeted audit."""
        if session.lost:
            return False
        session.lost = why
        _close_aside(session, self._workers)
        if self._on_lost is not None:
            self._on_lost(cause)
        return True

    def close(self, wait: float) -> None:
        """Close the session, if one is open. :param wait: seconds for that; then it goes on."""
        self._connecting.forget()
        session, self._session = self._session, None
        if session is not None and not session.lost:
            session.lost = "closed"
            _close_aside(session, self._workers).join(wait)

    def _current(self) -> tuple[Session, bool]:
        """Return the session and whether it was opened just now."""
        with self._opening:
            if self._session is not None and not self._session.lost:
                return self._session, False
            self._session = self._open()
            return self._session, True

    def _open(self) -> Session:
        events.run_event_loop()
        try:
            # Two calls, because a connection that is opened late and then not wanted any more is
            # closed by its destructor only if no callback was registered with it.
            virt, stamp = self._connecting.get(self._connect)
            if stamp != self._signature():
                # Absence of a domain in an earlier state of the file is no evidence.
                raise HypervisorUnavailable(f"{self.uri}: it has changed while it was read")
            session = Session(virt, stamp)
            try:
                self._workers.call(lambda: session.watch(self._on_domain, self.lose))
            except Exception:
                _close_aside(session, self._workers)
                raise
        except HypervisorUnavailable:
            raise
        except Exception as error:  # the binding also raises SystemError, as of text in no UTF-8
            raise HypervisorUnavailable(f"{self.uri}: {error}") from error
        return session

    def _connect(self) -> _Connected:
        stamp = self._signature()
        return libvirt.open(self.uri), stamp

    def _signature(self) -> Signature:
        return signature(self.file) if self.file is not None else ()


def library_version() -> str:
    """Return the version of libvirt's library on this machine, such as 9.0.0."""
    major, rest = divmod(libvirt.getVersion(), 1_000_000)
    return f"{major}.{rest // 1000}.{rest % 1000}"


def _close_aside(session: Session, workers: CallWorkers) -> threading.Thread:
    """Close a session on a thread of its own: the call may hang, and the caller may be libvirt's
    event thread.

    Calls that are under way return first: libvirt's library (9.0.0) ends the process with a memory
    fault if its connection is closed below one, or if a second call waits on a connection while the
    first one returns late.
    """

    def close() -> None:
        workers.settle(SETTLE)
        session.close()

    thread = threading.Thread(target=close, name="libvirt-close", daemon=True)
    thread.start()
    return thread


def caused(call: Callable[[], T]) -> T:
    """Return the result of a call that reads. It is made again if its error has lost its cause.

    libvirt keeps the last error of each thread. The garbage collector may free an object of libvirt
    before Python has read that error, which is then forgotten.
    """
    try:
        return call()
    except libvirt.libvirtError as error:
        if error.get_error_code() is not None:
            raise
    return call()


def broken(session: Session, error: libvirt.libvirtError) -> bool:
    """Return whether the error concerns the connection and not the requested item."""
    if session.lost:  # and closed, maybe during the call: then libvirt cannot even say so
        return True
    return error.get_error_domain() in _TRANSPORT or not session.virt.isAlive()


@contextlib.contextmanager
def optional(session: Session) -> Iterator[None]:
    """Ignore errors of features that the driver lacks; raise those of a broken connection."""
    try:
        yield
    except libvirt.libvirtError as error:
        if broken(session, error):
            raise
