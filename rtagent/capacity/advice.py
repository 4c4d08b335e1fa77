"""Advice: what would make room for further builds of a flavor, or why nothing does."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rtagent.capacity.fleet import JudgedHost
from rtagent.capacity.guest_moves import COLD, LIVE, arrived
from rtagent.capacity.move_search import MAX_MOVES, Destinations, MoveSearch, Plan, Step
from rtagent.capacity.room import MAX_BUILDS, Room, room
from rtagent.capacity.rooms import Passing, Rooms
from rtagent.model.base import Value
from rtagent.model.decision import Reason, Refused
from rtagent.model.migration import MigrationType
from rtagent.model.request import BuildRequest

#: The most hosts of which is said what is scarce, or why they do not take a guest.
MAX_NAMED = 10


class Move(Value, frozen=True, kw_only=True):
    """One move.

    :ivar server: its uuid. :ivar name: its name, or "". :ivar kind: the type of the move.
    :ivar why_cold: why the guest is not moved while it runs, or "".
    :ivar source: and :ivar destination: names of service hosts.
    :ivar memory_mb: of the guest, which a live migration copies.
    :ivar disk_mb: of the guest on its host, copied unless the hosts share it.
    """

    server: str
    name: str
    kind: MigrationType
    why_cold: str
    source: str
    destination: str
    memory_mb: int
    disk_mb: int


class Shortage(Value, frozen=True, kw_only=True):
    """What a host has too little of. :ivar host: the name of the service host.

    :ivar reason: of the refusal, with numbers.
    """

    host: str
    reason: Mapping[str, Any]


class Advice(Value, frozen=True, kw_only=True):
    """What makes room for a number of builds.

    :ivar room: the number of builds that succeed now; :ivar more: it is at least that.
    :ivar moves: to be made in this order, each after the end of the one before.
    :ivar room_after: the number of builds that succeed after the moves; None: there are none.
    :ivar undecided: what of the request only Placement decides on, so that nothing is known, or "".
    :ivar never: why no host takes the flavor even if it is empty, or "".
    :ivar scarce: what is scarce for the next build, on hosts that take builds, nearest miss first.
    :ivar refused: the number of hosts that take no builds, by what refuses them.
    :ivar leaving: the server that is the smallest of those whose departure alone would make room,
        or "". :ivar no_destination: why other hosts do not take it, nearest miss first.
    :ivar searched_moves: the search for plans of up to so many moves came to its end.
    :ivar searched: the number of groups of guests that were examined.
    :ivar cut_short: the search ended before it was complete: there may be a cheaper plan, or one.
    """

    room: int
    more: bool = False
    moves: tuple[Move, ...] = ()
    room_after: int | None = None
    undecided: str = ""
    never: str = ""
    scarce: tuple[Shortage, ...] = ()
    refused: Mapping[str, int] = {}
    leaving: str = ""
    no_destination: tuple[Shortage, ...] = ()
    searched_moves: int = 0
    searched: int = 0
    cut_short: bool = False


def advise(
    hosts: Sequence[JudgedHost],
    build: BuildRequest,
    count: int,
    passing: Passing,
    destinations: Destinations,
    is_over: Callable[[], bool],
) -> Advice:
    """Return the cheapest moves after which so many builds succeed, of up to `MAX_MOVES`.

    Of plans with equally many moves, the one with the smallest guests is the cheapest; of these,
    guests that move while they run are preferred.

    :param build: a request without allocations.
    :param is_over: returns whether the search has to end.
    """
    rooms = Rooms(hosts, build, count, passing)
    if rooms.total >= count:
        return Advice(room=count, more=True)
    refusals = Counter(host.refused.split(":")[0] for host in hosts if host.refused)
    advice = Advice(
        room=rooms.total, never=_never(rooms), scarce=_scarce(rooms), refused=dict(refusals)
    )
    if advice.never:
        return advice
    search = MoveSearch(hosts, rooms, destinations, is_over)
    number, plan = 0, None
    while plan is None and number < MAX_MOVES and not search.cut_short:
        number += 1
        plan = search.cheapest(number)
    cut_short = search.cut_short
    advice = replace(
        advice, searched_moves=number - cut_short, searched=search.searched, cut_short=cut_short
    )
    if plan is None:
        return _with_obstacle(advice, search)
    moves, room = tuple(_moves(search, plan)), search.number_after(plan, MAX_BUILDS)
    return replace(advice, moves=moves, room_after=room)


def _never(rooms: Rooms) -> str:
    """Return why no host takes a build even if it is empty; "": one does, or it is not known."""
    nearest: Room | None = None
    for taker in rooms.takers.values():
        counted = room(taker.host.state, rooms.build, taker.required, most=1)
        if not counted.never:
            return ""
        nearest = counted if nearest is None or counted.miss < nearest.miss else nearest
    return rooms.error if nearest is None else nearest.never


def _scarce(rooms: Rooms) -> tuple[Shortage, ...]:
    return _nearest(
        (taker.host.host, taker.counted.reasons[0])
        for taker in rooms.takers.values()
        if taker.counted.reasons
    )


def _nearest(found: Iterable[tuple[str, Reason]]) -> tuple[Shortage, ...]:
    ordered = sorted(found, key=lambda pair: (pair[1].miss, pair[0]))
    return tuple(
        Shortage(host=host, reason=reason.as_dict()) for host, reason in ordered[:MAX_NAMED]
    )


def _moves(search: MoveSearch, plan: Plan) -> Iterator[Move]:
    places: dict[str, str] = {}
    for guest, uuid, kind in plan.steps:
        claim = guest.claim
        source = places.get(claim.owner_id, guest.host)
        places[claim.owner_id] = uuid
        yield Move(
            server=claim.owner_id,
            name=claim.instance.display_name or "",
            kind=kind,
            why_cold=_why_cold(search, (guest, uuid, kind)),
            source=search.hosts[source].host,
            destination=search.hosts[uuid].host,
            memory_mb=claim.memory_mb,
            disk_mb=claim.disk_mb,
        )


def _why_cold(search: MoveSearch, step: Step) -> str:
    guest, uuid, kind = step
    if kind != COLD or guest.only_cold:
        return guest.only_cold
    host = search.hosts[uuid]
    verdict = arrived(host.state, guest, LIVE)
    why = str(verdict.reasons[0]) if isinstance(verdict, Refused) else "its filters refuse it"
    return f"{host.host} does not take it while it runs: {why}"


def _with_obstacle(advice: Advice, search: MoveSearch) -> Advice:
    """Add why no other host takes the smallest guest whose departure would make room."""
    guest = search.smallest_leaving()
    if guest is None:
        return advice
    found: list[tuple[str, Reason]] = []
    for uuid in search.allowed(guest, COLD):
        host = search.hosts[uuid]
        verdict = arrived(host.state, guest, COLD)
        if isinstance(verdict, Refused):
            found.append((host.host, verdict.reasons[0]))
    return replace(advice, leaving=guest.claim.owner_id, no_destination=_nearest(found))
