"""Weigh the hosts that passed the filters, and order them.

::

    weighers = HostWeighers.load(options, random)
    weighed = weighers.weigh(hosts, request)
    first, *others = weighers.in_order(weighed)
    ...                                          # the host is consumed from; here is its new state
    weighed.replace(consumed, request_of_the_next_instance)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from itertools import chain, groupby, islice
from operator import add, attrgetter
from random import Random

from rtagent.conf.scheduler import FilterOptions
from rtagent.model.base import Value
from rtagent.scheduler import plugins
from rtagent.scheduler.decision_log import Comparison, Contender
from rtagent.scheduler.filter import Request
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.weigher import Weigher
from rtagent.scheduler.weight_column import Score, WeightColumn

_NAME = attrgetter("nodename")
_UNIQUE_NAME = attrgetter("nodename", "uuid")


class WeighedHosts:
    """The hosts of one request with their weights.

    After one host was consumed from, `replace` weighs it again. The result is the same as if all
    hosts were weighed again.

    :ivar hosts: in order of their names.
    """

    def __init__(
        self, weighers: Sequence[Weigher], hosts: Sequence[HostState], request: Request
    ) -> None:
        self._weighers, self._request = weighers, request
        self.hosts = _by_name(hosts)
        self._positions: dict[str, int] | None = None
        self._weigh()

    def __len__(self) -> int:
        return len(self.hosts)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self._by_uuid

    def replace(self, host: HostState, request: Request | None = None) -> None:
        """Weigh the new state of one host.

        :param request: for the next instance. It may differ from the request before only in what
            makes no difference to other hosts.
        """
        self._request = request or self._request
        position = self._by_uuid[host.uuid]
        before, self.hosts[position] = self.hosts[position], host
        if host.nodename != before.nodename:
            self.hosts = _by_name(self.hosts)
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
        position = self._by_uuid[uuid]
        del self.hosts[position]
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
        if len(hosts) == len(self.hosts):
            return
        kept = {host.uuid for host in hosts}
        gone = [host.uuid for host in self.hosts if host.uuid not in kept]
        if len(gone) == 1:
            self.remove(gone[0])
        else:
            self.hosts = list(hosts)
            self._weigh()

    def ordered(self) -> Iterator[tuple[float, Iterator[HostState]]]:
        """Yield weights, best first, with the hosts that have them, in order of their names.

        A host that cannot be weighed comes after all others. Removals and
        replacements during the iteration have no effect on it.
        """
        hosts, weights, aside = list(self.hosts), list(self._weights), self.set_aside
        others: Iterable[int] = range(len(hosts))
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

    def compare(self, selected: HostState, refused: Collection[str]) -> Comparison:
        """Compare a host with the best of the others.

        :param refused: the uuids of those that the request cannot have.
        """
        left, mine = list(self._weights), self._place(selected)
        out = [self._by_uuid[uuid] for uuid in refused if uuid in self._by_uuid]
        for position in (mine, *self.set_aside, *out):
            left[position] = -math.inf
        best = max(left)
        other = None if best == -math.inf else self._contender(left.index(best))
        others = () if other is None else (other,)
        return Comparison(selected=self._contender(mine), others=others, weighers=self._weighers)

    def contender(self, host: HostState) -> Contender:
        """Return the weights of a host."""
        return self._contender(self._place(host))

    def scores(self) -> dict[str, tuple[Score, ...]]:
        """Return what every weigher gives every host, by node uuid. A weigher that makes no
        difference to any host is left out.
        """
        return {
            host.uuid: tuple(column.score(position) for column in self._columns)
            for position, host in enumerate(self.hosts)
        }

    def _weigh(self) -> None:
        overriding = self._overriding()
        columns = (
            WeightColumn(each, self.hosts, self._request, overriding.get(each.multiplier_key, ()))
            for each in self._weighers
        )
        self._columns = [column for column in columns if not column.empty]
        self.set_aside = frozenset(each for column in self._columns for each in column.problems)
        self._positions = None
        self._add_up()

    def _overriding(self) -> dict[str | None, list[int]]:
        """Return the positions of the hosts whose aggregates override a multiplier, by its key."""
        keys = {each.multiplier_key for each in self._weighers}
        known = {id(each): each for host in self.hosts for each in host.aggregates}
        relevant = {
            uid: found for uid, each in known.items() if (found := keys & each.metadata.keys())
        }
        positions: dict[str | None, list[int]] = {}
        for position, host in enumerate(self.hosts if relevant else ()):
            for key in {key for each in host.aggregates for key in relevant.get(id(each), ())}:
                positions.setdefault(key, []).append(position)
        return positions

    def _add_up(self) -> None:
        scores = [each.scores for each in self._columns if each.scores is not None]
        weights = list(scores[0]) if scores else [0.0] * len(self.hosts)
        for each in scores[1:]:
            weights = list(map(add, weights, each))
        self._weights = weights

    def _contender(self, position: int) -> Contender:
        host = self.hosts[position]
        return Contender(
            host=host.host,
            nodename=host.nodename,
            node_uuid=host.uuid,
            weight=self._weights[position],
            weights=tuple(
                column.score(position)
                for column in self._columns
                if column.scores is not None or column.problems
            ),
        )

    def _place(self, host: HostState) -> int:
        """Return the position of a host, of which only few are asked for."""
        return bisect_left(self.hosts, _UNIQUE_NAME(host), key=_UNIQUE_NAME)

    @property
    def _by_uuid(self) -> dict[str, int]:
        """The positions of the hosts."""
        if self._positions is None:
            self._positions = {host.uuid: place for place, host in enumerate(self.hosts)}
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
    with suppress(ValueError):  # there is no other one
        while True:
            position = weights.index(weight, position + 1)
            yield hosts[position]


#: The group of the entry points of weighers.
NAMESPACE = "rtagent.scheduler.weighers"
#: rtagent's own weighers, in the order in which weights are added.
ALL = (
    "RAMWeigher",
    "CPUWeigher",
    "DiskWeigher",
    "IoOpsWeigher",
    "NumInstancesWeigher",
    "PCIWeigher",
    "MetricsWeigher",
    "BuildFailureWeigher",
    "ServerGroupSoftAffinityWeigher",
    "ServerGroupSoftAntiAffinityWeigher",
    "CrossCellWeigher",
    "HypervisorVersionWeigher",
    "ImagePropertiesWeigher",
)
#: The beginning of the paths of weighers in a nova.conf.
_NOVA = "nova.scheduler.weights."


class Weighed(Value, frozen=True, kw_only=True):
    """A host and the sum of its weights."""

    host: HostState
    weight: float


class HostWeighers:
    """The enabled weighers. :param random: for the options that select at random."""

    def __init__(self, weighers: Iterable[Weigher], options: FilterOptions, random: Random) -> None:
        self._weighers = tuple(weighers)
        self._options, self._random = options, random

    @classmethod
    def load(cls, options: FilterOptions, random: Random) -> HostWeighers:
        """Return the weighers that ``weight_classes`` names.

        :raises ConfigError: a weigher is not installed, or cannot be loaded.
        """
        names = list(chain.from_iterable(map(_names, options.weight_classes)))
        classes = plugins.load(NAMESPACE, names, "weight_classes")
        return cls([each(options) for each in classes], options, random)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the weighers, in the order in which weights are added."""
        return tuple(each.name for each in self._weighers)

    def weigh(self, hosts: Sequence[HostState], request: Request) -> WeighedHosts:
        """Weigh the hosts."""
        return WeighedHosts(self._weighers, hosts, request)

    def in_order(self, weighed: WeighedHosts) -> Iterator[Weighed]:
        """Yield the hosts in the order in which to try them.

        This is by weight and then by name, but for the options
        ``shuffle_best_same_weighed_hosts``, which orders the best equal hosts at random, and
        ``host_subset_size``, of which one at random is the first.
        """
        hosts = self._hosts(weighed)
        size = min(self._options.host_subset_size, len(weighed) - len(weighed.set_aside))
        if size > 1:
            subset = list(islice(hosts, size))
            yield subset.pop(self._random.randrange(size))
            yield from subset
        yield from hosts

    def _hosts(self, weighed: WeighedHosts) -> Iterator[Weighed]:
        shuffle = self._options.shuffle_best_same_weighed_hosts
        for weight, equal in weighed.ordered():
            for host in self._shuffled(equal) if shuffle else equal:
                yield Weighed(host=host, weight=weight)
            shuffle = False

    def _shuffled(self, hosts: Iterable[HostState]) -> list[HostState]:
        shuffled = list(hosts)
        self._random.shuffle(shuffled)
        return shuffled


def _names(written: str) -> tuple[str, ...]:
    """Return the names for one item of ``weight_classes``."""
    name = written.rpartition(".")[2] if written.startswith(_NOVA) else written
    return ALL if name in ("all", "all_weighers") else (name,)
