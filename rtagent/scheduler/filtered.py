"""The result of filtering: the hosts that passed, and why others did not."""

import logging
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

from msgspec.structs import replace

from rtagent.allocation.capacity import Capacity
from rtagent.model.base import Value
from rtagent.model.usage import Usage
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.filter import Check, Rejection, Verdict
from rtagent.scheduler.host_state import HostState

LOG = logging.getLogger(__name__)

#: The longest message that is kept, in characters. Metadata and extra specs may be of any length.
MAX_MESSAGE = 500

#: How many refusals of one request are kept.
KEPT = 30

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
    def miss(self) -> Fraction:
        """The largest missing part of what was requested; 2, more than everything: the filter has
        no numbers.
        """
        return max((reason.miss for reason in self.rejection.reasons), default=Fraction(2))


class Full(Value, frozen=True, kw_only=True):
    """A host that has not enough for a plain request. Its reasons are made when they are read.

    :ivar capacity: what it had. :ivar plain: what was requested.
    """

    host: str
    nodename: str
    uuid: str
    capacity: Capacity
    plain: Usage

    @property
    def filter(self) -> str:
        """The filter."""
        return FIT

    @property
    def rejection(self) -> Rejection:
        """What the host's fit would say."""
        reasons = tuple(self.capacity.shortfalls(self.plain, self.nodename))
        return Rejection("; ".join(map(str, reasons)), reasons)


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
                self._defects.log(name, f"the host {host.host}, which is set aside", error)
                why = f"{name} cannot judge this host: {type(error).__name__}: {error}"
                rejection = Rejection(why)
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
        if len(rejection.message) > MAX_MESSAGE:
            rejection = replace(rejection, message=f"{rejection.message[: MAX_MESSAGE - 3]}...")
        count = self.refused.get(name, 0)
        self.refused[name] = count + 1
        if self._limit is None or count < self._limit:
            self.refusals.append(refusal_of(host, rejection, name))
        if rejection.reasons:
            self._consider(refusal_of(host, rejection, name))

    def _consider(self, refusal: Refusal) -> None:
        nearest = self.nearest
        if nearest is not None and nearest.filter == refusal.filter:
            refusal = min(nearest, refusal, key=lambda each: (each.miss, each.uuid))
        self.nearest = refusal


#: Among the names of filters, the one for hosts that the claim does not fit.
FIT = "fit"
PLACEMENT = "placement"
NO_CANDIDATE = Rejection("Placement has no candidate on this host")


class Refusals:
    """The hosts that were refused, each once.

    :param searched: the number of hosts.
    :ivar numbers: how many hosts each filter refused, in the order in which the filters ran.
    :ivar kept: the first `KEPT` of them.
    """

    def __init__(self, searched: int) -> None:
        self.searched = searched
        self.numbers: dict[str, int] = {}
        self.kept: list[Refusal | Full] = []
        self._nearest: Refusal | None = None
        self._unmatched: tuple[str, ...] = ()

    def without_candidates(self, hosts: Sequence[HostState]) -> None:
        """Add the hosts for which Placement has no candidate."""
        if hosts:
            self.numbers[PLACEMENT] = len(hosts)
            self._keep(refusal_of(host, NO_CANDIDATE, PLACEMENT) for host in hosts)

    def filtered(self, result: Filtered) -> None:
        """Add the hosts that filters refused."""
        for name, number in result.refused.items():
            self.numbers[name] = self.numbers.get(name, 0) + number
        self._keep(result.refusals)
        self._unmatched = self._unmatched or result.unmatched
        self._consider(result.nearest or next(iter(reversed(result.refusals)), None))

    def refused(self, host: HostState, rejection: Rejection, by: str = FIT) -> None:
        """Add a host. :param by: the filter that refuses it."""
        self.numbers[by] = self.numbers.get(by, 0) + 1
        refusal = refusal_of(host, rejection, by)
        self._keep((refusal,))
        self._consider(refusal)

    def add_full(
        self, hosts: Sequence[HostState], plain: Usage, fit: Callable[[HostState], Verdict]
    ) -> None:
        """Add hosts that have not enough for a plain request.

        :param fit: gives the reasons of the nearest miss. Those of the others are not needed.
        """
        if hosts:
            self.numbers[FIT] = self.numbers.get(FIT, 0) + len(hosts)
            self._keep(full(host, plain) for host in hosts)
            nearest = min(hosts, key=lambda host: missing_part(host.capacity, plain))
            verdict = fit(nearest)
            if isinstance(verdict, Rejection):
                self._consider(refusal_of(nearest, verdict, FIT))

    def error(self, own_claims: Sequence[str] = ()) -> NoValidHost:
        """Return the error that no host is left.

        :param own_claims: the uuids of the claims that the instance has on hosts.
        """
        return NoValidHost(
            hosts=self.searched,
            refused=self.numbers,
            nearest=None if self._nearest is None else _document(self._nearest),
            unmatched=self._unmatched,
            own_claims=list(own_claims),
            sentence=self._sentence(),
        )

    def _keep(self, refusals: Iterable[Refusal | Full]) -> None:
        self.kept.extend(islice(refusals, KEPT - len(self.kept)))

    def _consider(self, refusal: Refusal | None) -> None:
        """Keep the nearer miss. A host that has reasons with numbers is nearer than one without."""
        if refusal is None:
            return
        if self._nearest is None or refusal.miss <= self._nearest.miss:
            self._nearest = refusal

    def _sentence(self) -> str:
        if not self.searched:
            return "no host is known"
        parts = [f"{name} refused {number}" for name, number in self.numbers.items()]
        sentence = f"of {self.searched} hosts, {', '.join(parts)}"
        if self._nearest is not None:
            where, why = self._nearest.nodename, self._nearest.rejection.message
            sentence += f"; the nearest miss is {where}: {why}"
        return "; ".join((sentence, *self._unmatched))


def _document(refusal: Refusal) -> dict[str, Any]:
    return {
        "host": refusal.host,
        "nodename": refusal.nodename,
        "filter": refusal.filter,
        "message": refusal.rejection.message,
        "reasons": [reason.as_dict() for reason in refusal.rejection.reasons],
    }


def refusal_of(host: HostState, rejection: Rejection, by: str) -> Refusal:
    """Return the refusal of a host by a filter."""
    return Refusal(
        host=host.host, nodename=host.nodename, uuid=host.uuid, filter=by, rejection=rejection
    )


def full(host: HostState, plain: Usage) -> Full:
    """Return the refusal of a host that has not enough."""
    judged = plain if host.judges_amounts else Usage(pcpus=plain.pcpus)
    return Full(
        host=host.host, nodename=host.nodename, uuid=host.uuid, capacity=host.capacity, plain=judged
    )


def missing_part(capacity: Capacity, plain: Usage) -> Fraction:
    """Return the largest part of the quantities that a host does not have."""
    free = (
        (plain.vcpus, capacity.free_vcpus, capacity.total_vcpus),
        (plain.memory_mb, capacity.free_memory_mb, capacity.total_memory_mb),
        (plain.disk_mb, capacity.free_disk_mb, capacity.total_disk_mb),
    )
    return max(Fraction(asked - max(0, min(had)), max(1, asked)) for asked, *had in free)
