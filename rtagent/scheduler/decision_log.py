"""DecisionLog: the last decisions of a scheduler, with what they were made from, and why a host was
selected and not the best of the others.
"""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime

from rtagent.model.base import Value
from rtagent.scheduler.errors import DecisionNotFound
from rtagent.scheduler.filtered import Full, Refusal
from rtagent.scheduler.weigher import Weigher
from rtagent.scheduler.weight_column import Score

#: How many decisions are kept.
KEPT = 1000
#: How many instances they have together. One request selects for at most 1,000 instances.
MAX_INSTANCES = 4000


class Choice(Value, frozen=True, kw_only=True):
    """The hosts of one instance. :ivar alternates: names of their hosts."""

    instance_uuid: str
    host: str
    nodename: str
    operation_id: str
    weight: float
    alternates: tuple[str, ...] = ()


class LoggedDecision(Value, frozen=True, kw_only=True):
    """One request, and its outcome.

    :ivar flavor: its name or id. :ivar seconds: how long it took.
    :ivar hosts: how many were searched. :ivar refused: how many each filter refused.
    :ivar choices: of each instance; empty: none was made, because of the `error`.
    """

    uuid: str
    at: datetime
    purpose: str
    flavor: str
    instances: int
    seconds: float
    hosts: int
    refused: Mapping[str, int]
    choices: tuple[Choice, ...] = ()
    error: str | None = None


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


class Decision(Value, frozen=True, kw_only=True):
    """A decision, and what it was made from.

    :ivar instance_uuids: of the request, those without a choice, too.
    :ivar refusals: of some hosts, each once. :ivar comparisons: by instance.
    """

    logged: LoggedDecision
    instance_uuids: Sequence[str]
    refusals: Sequence[Refusal | Full] = ()
    comparisons: Mapping[str, Comparison] = {}

    def has(self, name: str) -> bool:
        """Return whether this is its uuid, that of a claim, or that of an instance."""
        return (
            name == self.logged.uuid
            or name in self.instance_uuids
            or any(choice.operation_id == name for choice in self.logged.choices)
        )


class DecisionLog:
    """The last `KEPT` decisions, or fewer: with at most `MAX_INSTANCES` instances together, but
    always the last one. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Decision] = deque()
        self._instances = 0

    def add(self, decision: Decision) -> None:
        """Add the newest decision, and remove the oldest ones that are too many."""
        kept = self._kept
        with self._lock:
            kept.appendleft(decision)
            self._instances += decision.logged.instances
            while len(kept) > 1 and (len(kept) > KEPT or self._instances > MAX_INSTANCES):
                self._instances -= kept.pop().logged.instances

    def newest_first(self) -> Sequence[LoggedDecision]:
        """Return the decisions."""
        with self._lock:
            return tuple(decision.logged for decision in self._kept)

    def find(self, name: str) -> Decision:
        """Return the newest decision with this uuid, or for the claim or the instance with it.

        :raises DecisionNotFound:
        """
        with self._lock:
            kept = tuple(self._kept)
        for decision in kept:
            if decision.has(name):
                return decision
        raise DecisionNotFound(decision=name)
