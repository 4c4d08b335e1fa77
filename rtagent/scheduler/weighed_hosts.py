"""WeighedHosts: the hosts of one request, ordered by their weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import groupby
from operator import add, attrgetter

from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request
from rtagent.scheduler.weigher import Weigher
from rtagent.scheduler.weight_column import Score, WeightColumn

_NAME = attrgetter("nodename")
_UNIQUE_NAME = attrgetter("nodename", "uuid")


class WeighedHosts:
    """The hosts of one request with their weights.

    After one host was consumed from, `replace` weighs it again. The result is the same as if all
    hosts were weighed again.
    """

    def __init__(
        self, weighers: Sequence[Weigher], hosts: Sequence[HostState], request: Request
    ) -> None:
        self._weighers, self._request = weighers, request
        self._hosts = _by_name(hosts)
        self._positions: dict[str, int] | None = None
        self._weigh()

    def __len__(self) -> int:
        return len(self._hosts)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self._by_uuid

    @property
    def hosts(self) -> Sequence[HostState]:
        """The hosts, in order of their names."""
        return self._hosts

    def replace(self, host: HostState, request: Request | None = None) -> None:
        """Weigh the new state of one host.

        :param request: for the next instance. It may differ from the request before only in what
            makes no difference to other hosts.
        """
        self._request = request or self._request
        position = self._position(host.uuid)
        before, self._hosts[position] = self._hosts[position], host
        if host.nodename != before.nodename:
            self._hosts = _by_name(self._hosts)
            self._weigh()
            return
        if self.set_aside or host.aggregates != before.aggregates:
            self._weigh()
            return
        try:
            changes = [each.replace(position, host, self._request) for each in self._columns]
        except Exception:
            self._weigh()  # it finds the problem, and names it
            return
        if any(changes):
            self._add_up()
        else:
            scores = [each.scores[position] for each in self._columns if each.scores is not None]
            self._weights[position] = reduce(add, scores) if scores else 0.0  # as `_add_up`

    def remove(self, uuid: str) -> None:
        """Remove a host, for example one that does not fit another instance."""
        position = self._position(uuid)
        del self._hosts[position]
        self._positions = None
        if self.set_aside or any(each.overridden for each in self._columns):
            self._weigh()  # an override may have been that of this host only
            return
        changes = [each.remove(position) for each in self._columns]
        del self._weights[position]
        if any(changes):
            self._add_up()

    def keep(self, hosts: Sequence[HostState]) -> None:
        """Remove all hosts but these. :param hosts: some of `hosts`."""
        if len(hosts) == len(self._hosts):
            return
        kept = {host.uuid for host in hosts}
        gone = [host.uuid for host in self._hosts if host.uuid not in kept]
        if len(gone) == 1:
            self.remove(gone[0])
        else:
            self._hosts = list(hosts)
            self._weigh()

    def ordered(self) -> Iterator[tuple[float, Iterator[HostState]]]:
        """Yield weights, best first, with the hosts that have them, in order of their names.

        A host that cannot be weighed comes after all others. Removals and
        replacements during the iteration have no effect on it.
        """
        hosts, weights, aside = list(self._hosts), list(self._weights), self.set_aside
        others = list(range(len(hosts)))
        if hosts and not aside:
            # Often only the best host is asked for, and sorting costs more than finding it.
            best = max(weights)
            yield best, _with_weight(hosts, weights, best)
            others = [each for each in others if weights[each] != best]
        order = sorted(others, key=weights.__getitem__, reverse=True)
        if aside:
            order.sort(key=aside.__contains__)
        for (_, weight), run in groupby(order, lambda each: (each in aside, weights[each])):
            yield weight, (hosts[each] for each in run)

    def scores(self) -> dict[str, tuple[Score, ...]]:
        """Return what every weigher gives every host, by node uuid. A weigher that makes no
        difference to any host is left out.
        """
        return {
            host.uuid: tuple(column.score(position) for column in self._columns)
            for position, host in enumerate(self._hosts)
        }

    def _weigh(self) -> None:
        overriding = self._overriding()
        columns = (
            WeightColumn(each, self._hosts, self._request, overriding.get(each.multiplier_key, ()))
            for each in self._weighers
        )
        self._columns = [column for column in columns if not column.empty]
        self.set_aside = frozenset(each for column in self._columns for each in column.problems)
        self._positions = None
        self._add_up()

    def _overriding(self) -> dict[str | None, list[int]]:
        """Return the positions of the hosts whose aggregates override a multiplier, by its key."""
        keys = {each.multiplier_key for each in self._weighers}
        known = {id(each): each for host in self._hosts for each in host.aggregates}
        relevant = {
            uid: found for uid, each in known.items() if (found := keys & each.metadata.keys())
        }
        positions: dict[str | None, list[int]] = {}
        for position, host in enumerate(self._hosts if relevant else ()):
            for key in {key for each in host.aggregates for key in relevant.get(id(each), ())}:
                positions.setdefault(key, []).append(position)
        return positions

    def _add_up(self) -> None:
        scores = [each.scores for each in self._columns if each.scores is not None]
        weights = list(scores[0]) if scores else [0.0] * len(self._hosts)
        for each in scores[1:]:
            weights = list(map(add, weights, each))
        self._weights = weights

    def _position(self, uuid: str) -> int:
        """:raises KeyError: there is no such host."""
        return self._by_uuid[uuid]

    @property
    def _by_uuid(self) -> dict[str, int]:
        """The positions of the hosts."""
        if self._positions is None:
            self._positions = {host.uuid: place for place, host in enumerate(self._hosts)}
        return self._positions


def _by_name(hosts: Sequence[HostState]) -> list[HostState]:
    """Return the hosts in order of their names, which mostly is how they come."""
    names = list(map(_NAME, hosts))
    if len(set(names)) == len(names) and sorted(names) == names:
        return list(hosts)
    return sorted(hosts, key=_UNIQUE_NAME)


def _with_weight(
    hosts: Sequence[HostState], weights: Sequence[float], weight: float
) -> Iterator[HostState]:
    position = -1
    for _ in range(weights.count(weight)):
        position = weights.index(weight, position + 1)
        yield hosts[position]
