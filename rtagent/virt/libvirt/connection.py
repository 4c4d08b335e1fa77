"""A connection to libvirt: opened when it is needed, lost at any time, bounded in every call."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import libvirt

from rtagent.errors import HypervisorUnavailable
from rtagent.model.base import Value
from rtagent.ports import Reporter
from rtagent.virt.libvirt.events import (
    DEVICE_EVENTS,
    Changed,
    DeviceChanged,
    run_event_loop,
    subscribe,
    subscribe_devices,
)
from rtagent.virt.libvirt.hostfile import Signature, host_file, signature
from rtagent.virt.libvirt.worker import Workers

#: Seconds between two keep-alive messages, and how many may stay unanswered: a daemon that is
#: frozen is noticed, and its hanging calls return, within three times the interval.
KEEPALIVE = (3, 2)

#: Errors of these parts of libvirt mean that the connection, not the item, is at fault.
_TRANSPORT = frozenset({libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE})


class News(Value, frozen=True, kw_only=True):
    """Who is told what: of a domain's change, of a device's, and once of each session's loss, by
    the word for a targeted audit, on whichever thread noticed. All must return at once."""

    domain: Changed
    device: DeviceChanged
    lost: Callable[[str], None]


class Session:
    """One open connection, from its opening to its loss.

    :ivar virt: libvirt's connection. :ivar lost: why it is no longer of use, or "".
    :ivar signature: of the simulated host's file as it was just before.
    """

    def __init__(self, virt: libvirt.virConnect, signature: Signature) -> None:
        self.virt, self.signature = virt, signature
        self.lost = ""
        self._events: list[int] = []
        self._device_events: list[int] = []

    def watch(self, news: News, closed: Callable[[Session, str], None]) -> None:
        """Hear of domains, of devices where the driver has any, and of the end of the
        connection."""
        with optional(self):
            self.virt.setKeepAlive(*KEEPALIVE)
        self.virt.registerCloseCallback(self._on_close, closed)
        self._events = subscribe(self.virt, news.domain)
        for event in DEVICE_EVENTS:
            with optional(self):
                self._device_events.append(subscribe_devices(self.virt, event, news.device))

    def close(self) -> None:
        """Let go of it. May hang as long as the other side does."""
        for event in self._events:
            with contextlib.suppress(libvirt.libvirtError):
                self.virt.domainEventDeregisterAny(event)
        for event in self._device_events:
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


class Connection:
    """The way to the `Session` of the moment.

    :ivar file: of the simulated host, if it is one.
    """

    def __init__(
        self,
        uri: str,
        workers: Workers,
        reporter: Reporter,
        news: News,
    ) -> None:
        self.uri, self.file = uri, host_file(uri)
        self._workers, self._reporter = workers, reporter
        self._news = news
        self._opening = threading.Lock()
        self._session: Session | None = None

    def session(self) -> Session:
        """The open one, or a new one.

        :raises HypervisorUnavailable: none can be opened.
        """
        self.check_file()
        try:
            session, new = self._current()
        except HypervisorUnavailable as error:
            self._reporter.health("hypervisor", "fail", error.message)
            raise
        if new:
            self._reporter.health("hypervisor", "pass")
            self._reporter.said("info", f"connected to {self.uri}")
        return session

    @contextlib.contextmanager
    def using(self, session: Session) -> Iterator[None]:
        """What libvirt raises in the block, or a call that hangs there, loses the session.

        :raises HypervisorUnavailable: then.
        """
        try:
            yield
        except (libvirt.libvirtError, TimeoutError) as error:
            self.lose(session, str(error))
            raise HypervisorUnavailable(f"{self.uri}: {error}") from error

    def check_file(self) -> None:
        """Lose the session when the simulated host's file has changed."""
        session = self._session
        if self.file is None or session is None or session.lost:
            return
        if signature(self.file) != session.signature:
            self.lose(session, f"{self.file} has changed", "file")

    def lose(self, session: Session, why: str, word: str = "connection") -> None:
        """Use the session no more; any thread may find that out, the first is believed."""
        if session.lost:
            return
        session.lost = why
        # The other side may hang, and the thread may be libvirt's own: closing is left to a third.
        threading.Thread(target=session.close, name="libvirt-close", daemon=True).start()
        self._news.lost(word)
        self._reporter.health("hypervisor", "fail", why)
        self._reporter.said("warning", f"lost the connection to {self.uri}: {why}")

    def close(self) -> None:
        """Close the session, if one is open; waits no longer than for any call."""
        session, self._session = self._session, None
        if session is not None and not session.lost:
            session.lost = "closed"
            with contextlib.suppress(TimeoutError):
                self._workers.call(session.close)

    def _current(self) -> tuple[Session, bool]:
        """The session, and whether it is a new one."""
        with self._opening:
            if self._session is not None and not self._session.lost:
                return self._session, False
            self._session = self._open()
            return self._session, True

    def _open(self) -> Session:
        run_event_loop()
        stamp = signature(self.file) if self.file is not None else ()
        try:
            # A connection that comes after its time is up is closed by its own destructor, as long
            # as nothing was registered with it: hence two calls.
            virt = self._workers.call(lambda: libvirt.open(self.uri))
            session = Session(virt, stamp)
            self._workers.call(lambda: session.watch(self._news, self.lose))
        except (libvirt.libvirtError, TimeoutError) as error:
            raise HypervisorUnavailable(f"{self.uri}: {error}") from error
        return session


def broken(session: Session, error: libvirt.libvirtError) -> bool:
    """Whether an error speaks of the connection rather than of the item that was asked for."""
    return error.get_error_domain() in _TRANSPORT or not session.virt.isAlive()


@contextlib.contextmanager
def optional(session: Session) -> Iterator[None]:
    """What the driver cannot do or tell in the block is left out; a broken connection is raised."""
    try:
        yield
    except libvirt.libvirtError as error:
        if broken(session, error):
            raise


__all__ = ["Connection", "News", "Session", "broken", "optional"]
