"""The URIs of hosts, and a connection to each."""

import re
from collections.abc import Callable, Collection
from typing import TypeVar

import libvirt

from rtagent.errors import HypervisorUnavailable
from rtagent.virt.libvirt.connection import LibvirtConnection, Session, broken
from rtagent.virt.libvirt.workers import CallWorkers

T = TypeVar("T")

#: The part of a pattern that is replaced by the name of a host.
PLACE = "{host}"
#: A host name becomes part of a URI and of a path.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")

#: An error after which the same call may succeed: another call has the domain's lock.
_BUSY = libvirt.VIR_ERR_OPERATION_TIMEOUT


#: Called with the session open, just before a call of libvirt that has an effect, after all that
#: may hang; its error prevents the call. A process that stands still after it loses its session,
#: because libvirt's daemon closes that of a client that does not answer keep-alive messages. The
#: call then fails, when the process goes on.
Check = Callable[[], object]


def unchecked() -> None:
    """Allow every call."""


class OrderRefused(Exception):
    """An order for a guest is refused here, and not by libvirt. The message says why."""


class NotOfClaim(OrderRefused):
    """The domain is of another claim than the order, or of none."""


def check_claim(claim: str | None, claims: Collection[str]) -> None:
    """Check that a domain is of one of the claims. :raises NotOfClaim:"""
    if claim not in claims:
        of = "no claim" if claim is None else f"the claim {claim}"
        raise NotOfClaim(f"it is of {of}, and not of {' or '.join(claims)}")


def uri_of(pattern: str, host: str) -> str:
    """Return the URI of a host. :raises HypervisorUnavailable: its name cannot be part of one."""
    if PLACE in pattern and not _NAME.fullmatch(host):
        raise HypervisorUnavailable(
            f"{host!r} cannot be a part of {pattern}: a host name has letters, digits, - _ and ."
        )
    return pattern.replace(PLACE, host)


class HostConnection:
    """The connection to one host: opened by the first call, and opened again after a loss.

    Thread-safe. A call that hangs costs a thread until it returns.
    """

    def __init__(self, uri: str, call_timeout: float) -> None:
        self._workers = CallWorkers(call_timeout)
        self._connection = LibvirtConnection(uri, self._workers)

    def run(self, call: Callable[[libvirt.virConnect], T]) -> T:
        """Return the result of a call with the open connection.

        A call that hangs is given up here, and goes on when libvirt answers: see `Check`.

        :raises HypervisorUnavailable: the host does not answer, or has no time now.
        :raises libvirt.libvirtError: the host refused.
        """
        return self._made(call, self._workers.call)

    def run_long(self, call: Callable[[libvirt.virConnect], T]) -> T:
        """Do the same without a time limit."""
        return self._made(call, self._workers.long)

    def close(self) -> None:
        """Close the connection, if it is open."""
        self._connection.close(0.0)

    def _made(
        self, call: Callable[[libvirt.virConnect], T], work: Callable[[Callable[[], T]], T]
    ) -> T:
        session = self._connection.session()
        try:
            return work(lambda: self._attempt(session, call))
        except TimeoutError as error:
            raise self._unavailable(error) from error

    def _attempt(self, session: Session, call: Callable[[libvirt.virConnect], T]) -> T:
        try:
            return call(session.virt)
        except libvirt.libvirtError as error:
            if broken(session, error):
                self._connection.lose(session, str(error))
                raise self._unavailable(error) from error
            if error.get_error_code() == _BUSY:
                raise self._unavailable(error) from error
            raise

    def _unavailable(self, error: Exception) -> HypervisorUnavailable:
        return HypervisorUnavailable(f"{self._connection.uri}: {error}")
