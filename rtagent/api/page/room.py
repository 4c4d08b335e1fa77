"""What still fits: the room of each flavor beside the host map, and the stranded parts on it."""

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from rtagent.capacity.stranded import Stranded
from rtagent.model.base import Value
from rtagent.model.cpuset import parse_cpu_spec


class StrandedParts(Value, frozen=True, kw_only=True):
    """The parts of the map that are stranded.

    :ivar pools: cells and sizes in KiB. :ivar names: of devices and assigned resources.
    """

    cpus: frozenset[int] = frozenset()
    pools: frozenset[tuple[int, int]] = frozenset()
    names: frozenset[str] = frozenset()

    @property
    def any(self) -> bool:
        """Whether something on the map is stranded."""
        return bool(self.cpus or self.pools or self.names)


NOTHING = StrandedParts()

#: A count is shown for so many times the time that it took, also if the host has changed by then.
#: So a page that is looked at uses a tenth of a CPU for it at most, also on a large host.
PAUSE = 9
#: Seconds after which it is counted anew in any case.
LONGEST_PAUSE = 10.0


class ShownRoom(Value, frozen=True, kw_only=True):
    """The part "What still fits".

    :ivar host: the document of ``/capacity``. :ivar most: the largest room of a flavor.
    """

    host: Mapping[str, Any]
    most: int
    parts: StrandedParts


class KeptRoom:
    """The room that the page shows: now and then that of a revision before. Pages are rendered one
    at a time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: tuple[Hashable, Hashable, ShownRoom] | None = None
        self._until = 0.0

    def version(self, revision: Hashable, rest: Hashable) -> Hashable:
        """Return what changes when `of` shows something else.

        :param revision: of the host. :param rest: all else on which the room depends. It is shown
            at once.
        """
        kept = self._kept
        if kept is not None and kept[1] == rest and self._clock() < self._until:
            revision = kept[0]
        return revision, rest

    def of(
        self, revision: Hashable, rest: Hashable, count: Callable[[], Mapping[str, Any]]
    ) -> ShownRoom:
        """Return the room. :param count: returns the document of ``/capacity``."""
        if self._kept is None or self.version(revision, rest) != self._kept[:2]:
            began = self._clock()
            room = _room(count())
            ended = self._clock()
            self._kept = revision, rest, room
            self._until = ended + min(LONGEST_PAUSE, PAUSE * (ended - began))
        return self._kept[2]


def _room(host: Mapping[str, Any]) -> ShownRoom:
    most = max((flavor["room"] for flavor in host["flavors"]), default=0)
    return ShownRoom(host=host, most=most, parts=_parts(host["stranded"]))


def _parts(stranded: Iterable[Stranded]) -> StrandedParts:
    listed = list(stranded)
    cpus = [parse_cpu_spec(part.names[0]) for part in listed if part.resource == "PCPU"]
    return StrandedParts(
        cpus=frozenset[int]().union(*cpus),
        pools=frozenset(
            (part.cell, part.size_kb)
            for part in listed
            if part.cell is not None and part.size_kb is not None
        ),
        names=frozenset(name for part in listed for name in part.names),
    )
