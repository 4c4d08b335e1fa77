"""Who gets which: requests that each need several of a set of things that they share."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

#: For each request what would do, by how well: things of a low rank before those of a higher one,
#: and among equals in this order.
Eligible = Mapping[str, int]


def match(needs: Sequence[int], eligible: Sequence[Eligible]) -> list[list[str]]:
    """For each request what it gets: as many in all as can be had, and the best ranks first.

    Ranks are filled one after the other, so that as many as can be are served by the lowest. A
    request makes way for another where it can have something else of a rank that is open.

    :param needs: how many each request wants. It gets fewer only if there are not enough for all.
    """
    owners: dict[str, int] = {}
    left = list(needs)
    for rank in sorted({rank for each in eligible for rank in each.values()}):
        open_now = [[thing for thing, at in each.items() if at <= rank] for each in eligible]
        for request in range(len(left)):
            while left[request] and _augment(request, open_now, owners):
                left[request] -= 1
    return [
        [thing for thing in each if owners.get(thing) == request]
        for request, each in enumerate(eligible)
    ]


def _augment(request: int, eligible: Sequence[Sequence[str]], owners: dict[str, int]) -> bool:
    """One thing more for the request: the shortest way of making way that ends at a free one."""
    came: dict[int, tuple[str, int]] = {}
    queue = deque([request])
    while queue:
        asking = queue.popleft()
        for thing in eligible[asking]:
            owner = owners.get(thing)
            if owner is None:
                _hand_over(thing, asking, request, came, owners)
                return True
            if owner != request and owner not in came:
                came[owner] = (thing, asking)
                queue.append(owner)
    return False


def _hand_over(
    thing: str,
    asking: int,
    request: int,
    came: Mapping[int, tuple[str, int]],
    owners: dict[str, int],
) -> None:
    owners[thing] = asking
    while asking != request:
        given, to = came[asking]
        owners[given] = to
        asking = to
