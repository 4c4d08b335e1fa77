"""Comparison: why a host was selected, and not the best of the others. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.model.base import Value
from rtagent.scheduler.weigher import Weigher
from rtagent.scheduler.weight_column import Score


class Contender(Value, frozen=True, kw_only=True):
    """A host that was weighed. :ivar weights: of the weighers that made a difference."""

    host: str
    nodename: str
    node_uuid: str
    weight: float
    weights: tuple[Score, ...]


class Comparison(Value, frozen=True, kw_only=True):
    """A selected host, and others that passed.

    :ivar others: the best of the others, and alternates. :ivar weighers: all of them.
    """

    selected: Contender
    others: tuple[Contender, ...]
    weighers: Sequence[Weigher]

    @property
    def why(self) -> str:
        """Why the host was preferred to the best of the others, in a sentence. A weigher that
        decided alone is named with what it has counted."""
        if not self.others:
            return "no other host was left to be weighed"
        other = self.others[0]
        if self.selected.weight == other.weight:
            return f"{other.host} weighs as much"
        if self.selected.weight < other.weight:
            return f"{other.host} weighs more, and one of the best hosts was taken at random"
        return _preferred(self.selected, other, self.weighers)


def _preferred(selected: Contender, other: Contender, weighers: Sequence[Weigher]) -> str:
    theirs = {score.weigher: score for score in other.weights}
    pairs = [(score, theirs[score.weigher]) for score in selected.weights]
    deciding = [(more, less) for more, less in pairs if more.weight > less.weight]
    names = ", ".join(more.weigher for more, _ in deciding)
    preferred = f"{selected.host} to {other.host}"
    if len(deciding) > 1:
        weights = f"{selected.weight:.4g} against {other.weight:.4g} in all"
        return f"{names} prefer {preferred}: {weights}"
    [(more, less)] = deciding
    weigher = next(weigher for weigher in weighers if weigher.name == names)
    weights = f"{more.weight:.4g} against {less.weight:.4g}"
    return f"{names} alone prefers {preferred}: {weights}, {_counted(weigher, more, less)}"


def _counted(weigher: Weigher, more: Score, less: Score) -> str:
    """Return what a weigher has counted on two hosts: ``3 free devices against 4``."""
    numbers = [
        "unknown" if score.raw is None else f"{weigher.counted(score.raw):.10g}"
        for score in (more, less)
    ]
    return f"{' '.join(filter(None, (numbers[0], weigher.counts)))} against {numbers[1]}"
