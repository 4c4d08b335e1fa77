"""Weigher: the base class of the weighers (entry points ``rtagent.scheduler.weighers``)."""

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import ClassVar

from rtagent.conf.scheduler import FilterOptions
from rtagent.model.node import Aggregate
from rtagent.scheduler.filter import Request
from rtagent.scheduler.host_state import HostState


class Weigher:
    """A rule that prefers hosts. A larger weight is better.

    A weigher is stateless and pure. The weights are normalised: the lowest becomes 0 and the
    highest 1, and if all are equal, 0. Then they are multiplied, and the products of all weighers
    are added up.

    :ivar multiplier_key: the option of the multiplier, and the key in the metadata of aggregates
        that overrides it. None: the multiplier is 1.
    :ivar sign: -1: the multiplier is negated.
    :ivar counts: what the numbers of `counted` are, for people; "": they have no name.
    :ivar least: the lower bound of normalisation, for which smaller weights count; None: the lowest
        weight.
    :ivar field: of hosts, whose values are the raw weights. A weigher without one has its own
        `weights`.
    """

    multiplier_key: ClassVar[str | None] = None
    sign: ClassVar[int] = 1
    least: ClassVar[float | None] = None
    counts: ClassVar[str] = ""
    field: ClassVar[str]

    def __init__(self, options: FilterOptions) -> None:
        self.options = options

    @property
    def name(self) -> str:
        """The name in options, logs and `explain`."""
        return type(self).__name__

    @property
    def multiplier(self) -> float:
        """The multiplier by the option, for hosts whose aggregates do not override it. 1: there is
        no such option.
        """
        return self.sign * float(getattr(self.options, self.multiplier_key or "", 1.0))

    def multiplier_of(self, host: HostState) -> float:
        """Return the multiplier for one host. 0 for all hosts: nothing is weighed.

        :raises ValueError: the host's aggregates have a value that is not a number.
        """
        override = _by_aggregates(host, self.multiplier_key)
        return self.multiplier if override is None else self.sign * override

    def counted(self, raw: float) -> float:
        """Return what was counted on a host that has this raw weight."""
        return raw

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float] | None:
        """Return a raw weight for each host, which does not depend on the other hosts.

        A host whose weight is not a finite number, or for which alone this method raises an error,
        comes after all others.

        :return: None: by the request or the options, not by the hosts, all weights are equal.
        """
        return list(map(attrgetter(self.field), hosts))


def _by_aggregates(host: HostState, key: str | None) -> float | None:
    """Return the smallest of the multipliers that the host's aggregates set; None: they set none.

    :raises ValueError: one of them is not a finite number.
    """
    found = [each for each in host.aggregates if key in each.metadata]
    return min((_number(each, str(key)) for each in found), default=None)


def _number(aggregate: Aggregate, key: str) -> float:
    text = aggregate.metadata[key]
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(
            f"{key} of aggregate {aggregate.name} is {text!r}, which is not a finite number"
        )
    return number
