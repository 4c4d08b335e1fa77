"""WeightColumn: the weights that one weigher gives the hosts of one request."""

import math
from collections.abc import Sequence

from rtagent.model.base import Value
from rtagent.scheduler.filter import Request
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.weigher import Weigher

#: Weights beyond this, positive or negative, cannot be compared exactly enough.
_LARGEST = 1e300


class Score(Value, frozen=True, kw_only=True):
    """What one weigher gives one host.

    :ivar raw: None: the weigher cannot weigh the host. :ivar normalized: from 0 to 1.
    :ivar weight: the product of `normalized` and `multiplier`, which counts.
    :ivar problem: why the host comes after all others, or empty.
    """

    weigher: str
    raw: float | None
    normalized: float
    multiplier: float
    weight: float
    problem: str = ""


class WeightColumn:
    """The weights of one weigher, by the positions of the hosts.

    :param overriding: the positions of hosts whose aggregates override the multiplier.
    :ivar problems: why hosts cannot be weighed, by position.
    :ivar scores: the products of normalised weights and multipliers; None: all are 0.
    """

    def __init__(
        self,
        weigher: Weigher,
        hosts: Sequence[HostState],
        request: Request,
        overriding: Sequence[int],
    ) -> None:
        self._weigher = weigher
        self.problems: dict[int, str] = {}
        self._multiplier = weigher.multiplier
        self._multipliers = self._overridden(hosts, overriding)
        self._low: float = 0.0
        self._high: float = 0.0
        counts = any(self._multipliers or (self._multiplier,))
        self._raw = self._weights(hosts, request) if counts else None
        self.scores = self._products()

    @property
    def empty(self) -> bool:
        """Whether the weigher makes no difference to any host."""
        return self._raw is None and not self.problems

    @property
    def overridden(self) -> bool:
        """Whether aggregates override the multiplier of some hosts."""
        return self._multipliers is not None

    def replace(self, position: int, host: HostState, request: Request) -> bool:
        """Weigh one host again, with the multiplier that it had.

        :return: the scores of other hosts changed, too.
        :raises ArithmeticError: LookupError: TypeError: ValueError: the host cannot be weighed.
        """
        if self._raw is None:
            return False
        weight = self._raised(_single(self._weigher.weights((host,), request)))
        before, self._raw[position] = self._raw[position], weight
        return self._follow(before, weight, position)

    def remove(self, position: int) -> bool:
        """Remove one host, if no multiplier is overridden.

        :return: the scores of other hosts changed.
        """
        if self._raw is None:
            return False
        before = self._raw.pop(position)
        if self.scores is not None:
            del self.scores[position]
        return bool(self._raw) and self._follow(before, None, None)

    def score(self, position: int) -> Score:
        """Return what the host at a position gets, in detail."""
        problem = self.problems.get(position, "")
        raw = None if problem or self._raw is None else self._raw[position]
        span = self._high - self._low
        return Score(
            weigher=self._weigher.name,
            raw=raw,
            normalized=(raw - self._low) / span if raw is not None and span else 0.0,
            multiplier=self._multipliers[position] if self._multipliers else self._multiplier,
            weight=self.scores[position] if self.scores else 0.0,
            problem=problem,
        )

    def _overridden(
        self, hosts: Sequence[HostState], overriding: Sequence[int]
    ) -> list[float] | None:
        """Return the multiplier of each host; None: all have that of the option."""
        if not overriding:
            return None
        multipliers = [self._multiplier] * len(hosts)
        for position in overriding:
            try:
                multipliers[position] = _usable(self._weigher.multiplier_of(hosts[position]))
            except Exception as error:
                self.problems[position] = _sentence(error)
        return multipliers

    def _weights(self, hosts: Sequence[HostState], request: Request) -> list[float] | None:
        """Return the weights, and find the bounds."""
        try:
            found = self._weigher.weights(hosts, request)
            if found is None:
                return None
            raw = list(found)
            if len(raw) == len(hosts) and _are_usable(raw):
                return self._bounded(raw)
        except Exception:  # noqa: S110  each host is weighed alone, which names the one that fails
            pass
        return self._weights_one_by_one(hosts, request)

    def _weights_one_by_one(self, hosts: Sequence[HostState], request: Request) -> list[float]:
        weights: dict[int, float] = {}
        for position, host in enumerate(hosts):
            try:
                weights[position] = _single(self._weigher.weights((host,), request))
            except Exception as error:
                self.problems[position] = _sentence(error)
        usable = dict(zip(weights, self._bounded([*weights.values()]), strict=True))
        return [usable.get(position, self._low) for position in range(len(hosts))]

    def _bounded(self, raw: list[float]) -> list[float]:
        """Find the bounds, and return the weights, raised to the lower one."""
        least, lowest = self._weigher.least, min(raw, default=0.0)
        if least is not None and lowest < least:
            raw = [max(weight, least) for weight in raw]
        self._low = lowest if least is None else least
        self._high = max(raw, default=self._low)
        return raw

    def _raised(self, weight: float) -> float:
        return weight if self._weigher.least is None else max(weight, self._weigher.least)

    def _follow(self, before: float, weight: float | None, position: int | None) -> bool:
        """Normalise again after one weight was replaced or, if it is None, removed.

        :return: the scores of other hosts changed.
        """
        raw, low, high = self._raw or [], self._low, self._high
        new = before if weight is None else weight
        if self._weigher.least is None:
            if new < low:
                low = new
            elif before == low and low not in raw:
                low = min(raw)
        if new > high:
            high = new
        elif before == high and high not in raw:
            high = max(raw)
        if (low, high) != (self._low, self._high):
            self._low, self._high = low, high
            self.scores = self._products()
            return True
        if position is not None and self.scores is not None:
            self.scores[position] = self._product(position)
        return False

    def _product(self, position: int) -> float:
        multiplier = self._multipliers[position] if self._multipliers else self._multiplier
        raw = self._raw or []
        return multiplier * ((raw[position] - self._low) / (self._high - self._low))

    def _products(self) -> list[float] | None:
        raw, low, span, multiplier = self._raw, self._low, self._high - self._low, self._multiplier
        if raw is None or span == 0:
            return None
        if self._multipliers is not None:
            pairs = zip(self._multipliers, raw, strict=True)
            return [multiplier * ((weight - low) / span) for multiplier, weight in pairs]
        if raw.count(self._high) == len(raw):  # which is often so, and found quickly
            return [multiplier * (span / span)] * len(raw)
        return [multiplier * ((weight - low) / span) for weight in raw]


def _single(found: Sequence[float] | None) -> float:
    """Return the weight of the only host."""
    if found is None or len(found) != 1:
        raise ValueError(f"it has no weight for the host: {found!r}")
    return _usable(found[0])


def _are_usable(raw: Sequence[float]) -> bool:
    if raw and raw.count(raw[0]) == len(raw):  # which is often so, and found quickly
        return math.isfinite(raw[0]) and abs(raw[0]) <= _LARGEST
    # A sum is finite only if all its parts are.
    return math.isfinite(sum(raw)) and min(raw) >= -_LARGEST and max(raw) <= _LARGEST


def _usable(number: float) -> float:
    if not math.isfinite(number) or abs(number) > _LARGEST:
        raise ValueError(f"{number} cannot be compared with other weights")
    return number


def _sentence(error: Exception) -> str:
    known = isinstance(error, (LookupError, ValueError)) and error.args
    return str(error.args[0]) if known else f"{type(error).__name__}: {error}"
