"""Refusals: the hosts that were refused during one search, and the error if none is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from rtagent.allocation.capacity import Capacity
from rtagent.model.usage import Usage
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.filtered import Filtered, Refusal
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.verdict import Rejection, Verdict

#: Among the names of filters, the one for hosts that the claim does not fit.
FIT = "fit"
PLACEMENT = "placement"


class Refusals:
    """The hosts that were refused, each once.

    :param searched: the number of hosts.
    :ivar numbers: how many hosts each filter refused, in the order in which the filters ran.
    """

    def __init__(self, searched: int) -> None:
        self._searched = searched
        self.numbers: dict[str, int] = {}
        self._nearest: Refusal | None = None
        self._unmatched: tuple[str, ...] = ()

    def without_candidates(self, number: int) -> None:
        """Add the hosts for which Placement has no candidate."""
        if number:
            self.numbers[PLACEMENT] = number

    def filtered(self, result: Filtered) -> None:
        """Add the hosts that filters refused."""
        for name, number in result.refused.items():
            self.numbers[name] = self.numbers.get(name, 0) + number
        self._unmatched = self._unmatched or result.unmatched
        self._consider(result.nearest or next(iter(reversed(result.refusals)), None))

    def refused(self, host: HostState, rejection: Rejection, by: str = FIT) -> None:
        """Add a host. :param by: the filter that refuses it."""
        self.numbers[by] = self.numbers.get(by, 0) + 1
        self._consider(refusal_of(host, rejection, by))

    def full(
        self, hosts: Sequence[HostState], plain: Usage, fit: Callable[[HostState], Verdict]
    ) -> None:
        """Add hosts that have not enough for a plain request.

        :param fit: gives the reasons of the nearest miss. Those of the others are not needed.
        """
        if hosts:
            self.numbers[FIT] = self.numbers.get(FIT, 0) + len(hosts)
            nearest = min(hosts, key=lambda host: missing_part(host.capacity, plain))
            verdict = fit(nearest)
            if isinstance(verdict, Rejection):
                self._consider(refusal_of(nearest, verdict, FIT))

    def error(self, own_claims: Sequence[str] = ()) -> NoValidHost:
        """Return the error that no host is left.

        :param own_claims: the uuids of the claims that the instance has on hosts.
        """
        return NoValidHost(
            hosts=self._searched,
            refused=self.numbers,
            nearest=None if self._nearest is None else _document(self._nearest),
            unmatched=self._unmatched,
            own_claims=list(own_claims),
            sentence=self._sentence(),
        )

    def _consider(self, refusal: Refusal | None) -> None:
        """Keep the nearer miss. A host that has reasons with numbers is nearer than one without."""
        if refusal is None:
            return
        known = self._nearest
        if known is None or _miss(refusal) <= _miss(known):
            self._nearest = refusal

    def _sentence(self) -> str:
        if not self._searched:
            return "no host is known"
        parts = [f"{name} refused {number}" for name, number in self.numbers.items()]
        sentence = f"of {self._searched} hosts, {', '.join(parts)}"
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


def _miss(refusal: Refusal) -> Fraction:
    """Return the missing part; 2, more than everything, if there are no numbers."""
    return Fraction(2) if refusal.miss is None else refusal.miss


def missing_part(capacity: Capacity, plain: Usage) -> Fraction:
    """Return the largest part of the quantities that a host does not have."""
    free = (
        (plain.vcpus, capacity.free_vcpus, capacity.total_vcpus),
        (plain.memory_mb, capacity.free_memory_mb, capacity.total_memory_mb),
        (plain.disk_mb, capacity.free_disk_mb, capacity.total_disk_mb),
    )
    return max(Fraction(asked - max(0, min(had)), max(1, asked)) for asked, *had in free)
