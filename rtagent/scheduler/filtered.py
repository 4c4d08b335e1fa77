"""The result of filtering: the hosts that passed, and why others did not."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from fractions import Fraction

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.scheduler.filter import Check, Rejection
from rtagent.scheduler.host_state import HostState

LOG = logging.getLogger(__name__)

#: The longest message that is kept, in characters. Metadata and extra specs may be of any length.
MAX_MESSAGE = 500

#: A check with the name of its filter.
NamedCheck = tuple[str, Check]


class Refusal(Value, frozen=True, kw_only=True):
    """A host that a filter refused. :ivar uuid: of the node. :ivar filter: its name."""

    host: str
    nodename: str
    uuid: str
    filter: str
    rejection: Rejection

    @property
    def miss(self) -> Fraction | None:
        """The largest missing part of what was requested; None: the filter has no numbers."""
        return max((reason.miss for reason in self.rejection.reasons), default=None)


class Filtered(Value, frozen=True, kw_only=True):
    """The hosts that passed, in the order in which they came.

    :ivar judged: names of the filters that judged, in order.
    :ivar refused: how many hosts each of them refused, without those that refused none.
    :ivar refusals: some of each filter; all, if `every_verdict` was requested.
    :ivar nearest: the host that lacks least, at the last filter that has numbers.
    :ivar unmatched: a sentence for each requested name that no host has.
    """

    hosts: list[HostState]
    judged: tuple[str, ...] = ()
    refused: dict[str, int] = {}
    refusals: tuple[Refusal, ...] = ()
    nearest: Refusal | None = None
    unmatched: tuple[str, ...] = ()


class Defects:
    """Logs each type of error of a filter once, because a host with bad data causes one for every
    request. Rejections name the error each time.
    """

    def __init__(self) -> None:
        self._logged: set[tuple[str, type[Exception]]] = set()

    def log(self, name: str, what: str, error: Exception) -> None:
        """Log the first error of this type that this filter raises."""
        if (name, type(error)) not in self._logged:
            self._logged.add((name, type(error)))
            LOG.warning("The filter %s cannot judge %s", name, what, exc_info=error)


class Tally:
    """Runs checks and counts what they refuse.

    :param limit: of refusals to keep for each filter; None: all.
    """

    def __init__(self, limit: int | None, defects: Defects) -> None:
        self._limit, self._defects = limit, defects
        self.refused: dict[str, int] = {}
        self.refusals: list[Refusal] = []
        self.nearest: Refusal | None = None

    def passing(self, named: NamedCheck, hosts: Iterable[HostState]) -> list[HostState]:
        """Return the hosts that pass, and count the others."""
        name, check = named
        hosts = list(hosts)
        undecided = getattr(check, "undecided", None)
        refused = set[int]()
        for host in hosts if undecided is None else undecided(hosts):
            try:
                rejection = check(host)
            except Exception as error:
                rejection = self._failed(name, host, error)
            if rejection is not None:
                refused.add(id(host))
                self._count(name, host, rejection)
        return [host for host in hosts if id(host) not in refused] if refused else hosts

    def filtered(self, hosts: list[HostState], checks: Sequence[NamedCheck]) -> Filtered:
        """Return the result of these checks, with the hosts that passed."""
        return Filtered(
            hosts=hosts,
            judged=tuple(name for name, _ in checks),
            refused=self.refused,
            refusals=tuple(self.refusals),
            nearest=self.nearest,
        )

    def _count(self, name: str, host: HostState, rejection: Rejection) -> None:
        if not isinstance(rejection, Rejection):
            rejection = Rejection(f"{name} returned {rejection!r}: neither None nor a Rejection")
        count = self.refused.get(name, 0)
        self.refused[name] = count + 1
        if self._limit is None or count < self._limit:
            self.refusals.append(_refusal(name, host, rejection))
        if rejection.reasons:
            self._consider(_refusal(name, host, rejection))

    def _consider(self, refusal: Refusal) -> None:
        nearest = self.nearest
        if nearest is None or nearest.filter != refusal.filter or _rank(refusal) < _rank(nearest):
            self.nearest = refusal

    def _failed(self, name: str, host: HostState, error: Exception) -> Rejection:
        self._defects.log(name, f"the host {host.host}, which is set aside", error)
        return Rejection(f"{name} cannot judge this host: {type(error).__name__}: {error}")


def _rank(refusal: Refusal) -> tuple[Fraction, str]:
    return refusal.miss or Fraction(0), refusal.uuid


def _refusal(name: str, host: HostState, rejection: Rejection) -> Refusal:
    if len(rejection.message) > MAX_MESSAGE:
        rejection = replace(rejection, message=f"{rejection.message[: MAX_MESSAGE - 3]}...")
    return Refusal(
        host=host.host,
        nodename=host.nodename,
        uuid=host.uuid,
        filter=name,
        rejection=rejection,
    )
