"""Weigh the hosts that passed the filters, and order them.

::

    weighers = HostWeighers.load(options, random)
    weighed = weighers.weigh(hosts, request)
    first, *others = weighers.in_order(weighed)
    ...                                          # the host is consumed from; here is its new state
    weighed.replace(consumed, request_of_the_next_instance)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from random import Random

from rtagent.model.base import Value
from rtagent.scheduler import plugins
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.options import FilterOptions
from rtagent.scheduler.request import Request
from rtagent.scheduler.weighed_hosts import WeighedHosts
from rtagent.scheduler.weigher import Weigher

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

    def get_weighed_hosts(self, hosts: Sequence[HostState], request: Request) -> list[Weighed]:
        """Weigh the hosts, and return all of them in the order in which to try them."""
        return list(self.in_order(self.weigh(hosts, request)))

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
