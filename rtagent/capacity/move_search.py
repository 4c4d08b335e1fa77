"""The search for the cheapest moves of guests after which further builds of a flavor fit.

It goes backwards. Builds get room only on a host that guests leave. So it first finds groups of
guests whose departure makes enough room, and then hosts that take these guests: as they are, after
another guest has left one of them, or by way of another host, from which the guest comes back to
another place on its own. Each plan is folded onto the states, move by move, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, permutations, product

from rtagent.allocation.requirements import Requirements, from_request
from rtagent.capacity.bounds import Bound
from rtagent.capacity.fleet import FleetHost
from rtagent.capacity.guest_moves import COLD, Guest, arrived, bound_of, guests, left
from rtagent.capacity.room import Room, builds
from rtagent.errors import RequestError
from rtagent.model.base import Value
from rtagent.model.migration import MigrationType
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest

#: The most moves of one plan.
MAX_MOVES = 3
#: Of hosts that lose equally much room to a guest, so many are tried: another move of the plan may
#: need one of them, or leave it.
_EQUAL = 2 * MAX_MOVES

#: Returns the uuids of the nodes that may be the destination of a guest, by the kind of its move.
#: Whether they have room for it is not judged.
Destinations = Callable[[Guest, MigrationType], Sequence[str]]
#: Returns how many of the builds that fit on a state of a host its filters let pass.
Passing = Callable[[FleetHost, NodeState, int], int]
#: One move: the guest, the uuid of its destination, and the kind.
Step = tuple[Guest, str, MigrationType]
#: A guest that has to move, and the uuid of the only host to which it may; None: to any.
_Task = tuple[Guest, str | None]
#: The states of the hosts that moves have changed, by uuid.
States = dict[str, NodeState]


class Plan(Value, frozen=True, kw_only=True):
    """:ivar cost: the memory of the guests in MB, and how many move cold."""

    cost: tuple[int, int]
    steps: tuple[Step, ...]
    states: States


class Taker:
    """A host that takes builds. :ivar room: how many now, counted up to those asked for."""

    def __init__(self, host: FleetHost, required: Requirements, counted: Room, room: int) -> None:
        self.host, self.required, self.counted = host, required, counted
        self.room, self.bound = room, Bound(host.state, required)


class Search:
    """A search.

    :ivar hosts: by uuid. :ivar takers: those that take builds.
    :ivar total: the number of builds that succeed now, if it is less than those asked for.
    :ivar error: why a host is left out that filters let through, or "".
    :ivar cut_short: it had to end. :ivar searched: the number of groups that were examined.
    """

    def __init__(
        self,
        hosts: Iterable[FleetHost],
        build: BuildRequest,
        count: int,
        passing: Passing,
        destinations: Destinations,
        is_over: Callable[[], bool],
    ) -> None:
        self.hosts = {host.uuid: host for host in hosts}
        self._build, self._count, self._destinations = build, count, destinations
        self._passing, self._is_over, self.error = passing, is_over, ""
        self.takers = dict(self._all_takers())
        self.total = sum(taker.room for taker in self.takers.values())
        self._lacking = count - self.total
        self._guests: dict[str, tuple[Guest, ...]] = {}
        self._gains: dict[tuple[str, ...], int] = {}
        self._takes: dict[bytes, list[str]] = {}
        self._losses: dict[tuple[bytes, str], int | None] = {}
        self._shapes: dict[tuple[str, MigrationType], bytes] = {}
        self._openings: dict[bytes, list[tuple[Guest, str]]] = {}
        self._limit: float = math.inf
        self.cut_short, self.searched = False, 0

    def _all_takers(self) -> Iterator[tuple[str, Taker]]:
        for uuid, host in self.hosts.items():
            if host.refused or host.state.topology is None:
                continue
            try:
                required = from_request(self._build, host.state.policy)
                counted = builds(host.state, self._build, required, self._count)
            except RequestError as error:  # what its aliases make of the flavor
                self.error = error.message
                continue
            # A wrong report of one host must not end the search on all hosts.
            except Exception as error:
                self.error = f"{host.host} cannot be judged: {type(error).__name__}: {error}"
                continue
            room = self._passing(host, host.state, min(counted.number, self._count))
            yield uuid, Taker(host, required, counted, room)

    def cheapest(self, number: int) -> Plan | None:
        """Return the cheapest plan of so many moves, of those that were searched."""
        best: Plan | None = None
        self._limit = math.inf
        if number > 1 and not self._any_moves():
            return None  # no plan has a first move
        for extra in range(number):
            for group in self._groups(number - extra, extra):
                if self._cuts():
                    return best
                if _memory(group) >= self._limit:
                    continue
                self.searched += 1
                if self._gain(group) >= self._lacking:
                    plan = self._of_group(group, extra)
                    if plan is not None and plan.cost[0] < self._limit:
                        best, self._limit = plan, plan.cost[0]
        return best

    def _any_moves(self) -> bool:
        return any(self._can_move(guest) for uuid in self.hosts for guest in self._guests_on(uuid))

    def smallest_leaving(self) -> Guest | None:
        """Return the smallest guest whose departure alone would make enough room, or None."""
        groups = self._of_one_host(1, self._lacking, 1)
        return next((group[0] for group in groups if self._gain(group) >= self._lacking), None)

    def _cuts(self) -> bool:
        self.cut_short = self.cut_short or self._is_over()
        return self.cut_short

    # -- guests that leave ------------------------------------------------------------------------

    def _groups(self, size: int, extra: int) -> Iterator[tuple[Guest, ...]]:
        """Yield the groups of guests whose departure may make enough room."""
        yield from self._of_one_host(size, self._lacking, extra)
        # One host alone makes enough room if no build fits now and one is asked for: then no host
        # loses room, and nothing is gained by two.
        if size > 1 and (self.total or self._lacking > 1):
            yield from self._of_several_hosts(size)

    def _of_one_host(self, size: int, lacking: int, extra: int) -> list[tuple[Guest, ...]]:
        """Return groups on one host that may make so much room, smallest first."""
        groups: list[tuple[Guest, ...]] = []
        for uuid, taker in self.takers.items():
            if size > 1 and self._cuts():
                break
            bound, least = taker.bound, taker.room + lacking
            given = [(guest, bound.parts(guest.claim)) for guest in self._guests_on(uuid)]
            for chosen in combinations(given, size):
                if bound.reaches(least, [parts for _, parts in chosen]):
                    groups.append(tuple(guest for guest, _ in chosen))
        if not extra:  # what one of them cannot do, the departure of the others does not allow
            groups = [group for group in groups if all(map(self._can_move, group))]
        return sorted(groups, key=_order)

    def _of_several_hosts(self, size: int) -> Iterator[tuple[Guest, ...]]:
        gaining = [group for group in self._of_one_host(1, 1, 1) if self._gain(group) > 0]
        parts: Iterable[tuple[tuple[Guest, ...], ...]] = combinations(gaining, size)
        if size > 2:
            pairs = (group for group in self._of_one_host(2, 1, 1) if self._gain(group) > 0)
            parts = chain(parts, product(pairs, gaining))
        for chosen in parts:
            if len({group[0].host for group in chosen}) == len(chosen):
                yield tuple(chain.from_iterable(chosen))

    def _gain(self, group: Sequence[Guest]) -> int:
        """Return how many more builds fit after a group has left."""
        by_host: dict[str, list[Guest]] = {}
        for guest in group:
            by_host.setdefault(guest.host, []).append(guest)
        return sum(self._gain_on(uuid, leaving) for uuid, leaving in by_host.items())

    def _gain_on(self, uuid: str, group: Sequence[Guest]) -> int:
        key = tuple(guest.claim.uuid for guest in group)
        if key not in self._gains:
            state: NodeState | None = self.hosts[uuid].state
            for guest in group:
                state = None if state is None else left(self.hosts[uuid], state, guest)
            known = state is not None
            self._gains[key] = self._number(uuid, state) - self._room(uuid) if known else 0
        return self._gains[key]

    def _guests_on(self, uuid: str) -> tuple[Guest, ...]:
        if uuid not in self._guests:
            self._guests[uuid] = tuple(guests(self.hosts[uuid]))
        return self._guests[uuid]

    # -- hosts that take them ---------------------------------------------------------------------

    def _of_group(self, group: tuple[Guest, ...], extra: int) -> Plan | None:
        """Return a plan that moves these guests, with so many further moves."""
        for order in permutations(group):
            plan = self._plan(tuple((guest, None) for guest in order), (), {}, extra)
            if plan is not None:
                return plan
        return None

    def _plan(
        self, tasks: tuple[_Task, ...], steps: tuple[Step, ...], states: States, extra: int
    ) -> Plan | None:
        """Return a plan of the steps that were made, with tasks and further moves."""
        if not tasks:
            return self._checked(steps, states)
        (guest, only), *rest = tasks
        for uuid, kind in self._ways(guest, only, states):
            after = self._after(guest, uuid, kind, states)
            if after is not None:
                plan = self._plan(tuple(rest), (*steps, (guest, uuid, kind)), after, extra)
                if plan is not None:
                    return plan
        if not extra or only is not None:
            return None
        plans = (
            self._after_another(guest, tuple(rest), steps, states, extra - 1),
            self._there_and_back(guest, tuple(rest), steps, states, extra - 1),
        )
        return min(filter(None, plans), key=lambda plan: plan.cost, default=None)

    def _checked(self, steps: tuple[Step, ...], states: States) -> Plan | None:
        """Return the plan, if the builds fit after it."""
        cold = sum(kind == COLD for _, _, kind in steps)
        memory = _memory(guest for guest, _, _ in steps)
        plan = Plan(cost=(memory, cold), steps=steps, states=states)
        return plan if self.number_after(plan, self._count) >= self._count else None

    def number_after(self, plan: Plan, most: int) -> int:
        """Return the number of builds that succeed after a plan, counted on a host up to `most`."""
        changes = (
            self._number(uuid, state, most) - self._room(uuid)
            for uuid, state in plan.states.items()
        )
        return self.total + sum(changes)

    def _after_another(
        self,
        guest: Guest,
        rest: tuple[_Task, ...],
        steps: tuple[Step, ...],
        states: States,
        extra: int,
    ) -> Plan | None:
        """Return a plan in which another guest makes way for a guest at its destination."""
        moved = {step[0].claim.uuid for step in steps} | {task[0].claim.uuid for task in rest}
        memory = _memory([guest, *(step[0] for step in steps), *(task[0] for task in rest)])
        allowed = set(self.allowed(guest, guest.kinds[-1]))
        for other, uuid in self._makes_way(guest):
            if memory + other.claim.memory_mb >= self._limit or self._cuts():
                return None
            if uuid not in allowed or other.claim.uuid in moved:
                continue
            if not extra and not self._can_move(other):
                continue
            tasks = ((other, None), (guest, uuid), *rest)
            plan = self._plan(tasks, steps, states, extra)
            if plan is not None:
                return plan
        return None

    def _makes_way(self, guest: Guest) -> list[tuple[Guest, str]]:
        """Return guests, smallest first, after whose departure their host may take a guest."""
        shape = self._shape(guest, guest.kinds[-1])
        if shape not in self._openings:
            found: list[tuple[Guest, str]] = []
            for uuid in self._destinations(guest, guest.kinds[-1]):
                bound = bound_of(guest, self.hosts[uuid].state)
                if bound is not None:
                    given = ((other, bound.parts(other.claim)) for other in self._guests_on(uuid))
                    found += ((other, uuid) for other, parts in given if bound.reaches(1, [parts]))
            self._openings[shape] = sorted(found, key=lambda way: _order((way[0],)))
        return self._openings[shape]

    def _there_and_back(
        self,
        guest: Guest,
        rest: tuple[_Task, ...],
        steps: tuple[Step, ...],
        states: States,
        extra: int,
    ) -> Plan | None:
        """Return a plan in which a guest comes back to another place on its own host."""
        way, host = next(self._ways(guest, None, states), None), self.hosts[guest.host]
        without = left(host, states.get(guest.host, host.state), guest)
        if way is None or without is None:
            return None
        uuid, kind = way
        back = arrived(without, guest, kind)
        if not isinstance(back, NodeState):
            return None
        trip = ((guest, uuid, kind), (guest, guest.host, kind))
        return self._plan(rest, (*steps, *trip), {**states, guest.host: back}, extra)

    def _after(self, guest: Guest, uuid: str, kind: MigrationType, states: States) -> States | None:
        """Return the states after a move; None: the destination does not take the guest."""
        source, dest = self.hosts[guest.host], self.hosts[uuid]
        there = arrived(states.get(uuid, dest.state), guest, kind)
        if not isinstance(there, NodeState):
            return None
        here = left(source, states.get(guest.host, source.state), guest)
        return None if here is None else {**states, guest.host: here, uuid: there}

    def _ways(
        self, guest: Guest, only: str | None, states: States
    ) -> Iterator[tuple[str, MigrationType]]:
        """Yield where a guest may go, and how: live before cold, then by the loss of room."""
        for kind in guest.kinds:
            allowed = self.allowed(guest, kind)
            if only is not None:
                yield from ((only, kind) for _ in range(only in allowed))
                continue
            untouched = [uuid for uuid in allowed if uuid not in states]
            full = (uuid for uuid in untouched if not self._room(uuid))
            yield from ((uuid, kind) for uuid in self._taking(guest, kind, full))
            yield from ((uuid, kind) for uuid in allowed if uuid in states)
            losses: dict[int, list[str]] = {}
            for uuid in untouched:
                if self._room(uuid) and (loss := self._loss(guest, kind, uuid)) is not None:
                    losses.setdefault(loss, []).append(uuid)
            for _, uuids in sorted(losses.items()):
                yield from ((uuid, kind) for uuid in uuids[:_EQUAL])

    def allowed(self, guest: Guest, kind: MigrationType) -> list[str]:
        """Return the hosts that a guest may go to, as far as only its claim can decide: those on
        which it has nothing.
        """
        owner = guest.claim.owner_id
        uuids = self._destinations(guest, kind)
        return [uuid for uuid in uuids if owner not in self.hosts[uuid].instances]

    def _taking(
        self, guest: Guest, kind: MigrationType, uuids: Iterable[str], most: int = _EQUAL
    ) -> Iterator[str]:
        taking = (uuid for uuid in uuids if self._loss(guest, kind, uuid) is not None)
        return islice(taking, most)

    def _can_move(self, guest: Guest) -> bool:
        """Return whether a guest has a destination while no other guest moves."""
        for kind in guest.kinds:
            shape = self._shape(guest, kind)
            if shape not in self._takes:
                self._takes[shape] = list(
                    self._taking(guest, kind, self._destinations(guest, kind), 2)
                )
            if any(uuid != guest.host for uuid in self._takes[shape]):
                return True
        return False

    def _loss(self, guest: Guest, kind: MigrationType, uuid: str) -> int | None:
        """Return how many builds fewer a host takes after a guest has come; None: it does not take
        the guest.
        """
        key = self._shape(guest, kind), uuid
        if key not in self._losses:
            state = self.hosts[uuid].state
            bound = bound_of(guest, state)
            fits = bound is not None and bound.reaches(1)
            after = arrived(state, guest, kind) if fits else None
            self._losses[key] = (
                self._room(uuid) - (self._number(uuid, after) if self._room(uuid) else 0)
                if isinstance(after, NodeState)
                else None
            )
        return self._losses[key]

    def _shape(self, guest: Guest, kind: MigrationType) -> bytes:
        key = guest.claim.uuid, kind
        if key not in self._shapes:
            self._shapes[key] = guest.shape(kind)
        return self._shapes[key]

    # -- numbers ----------------------------------------------------------------------------------

    def _room(self, uuid: str) -> int:
        return self.takers[uuid].room if uuid in self.takers else 0

    def _number(self, uuid: str, state: NodeState | None, most: int = 0) -> int:
        """Return the number of builds that a state of a host takes, up to those asked for."""
        taker, most = self.takers.get(uuid), most or self._count
        if taker is None or state is None:
            return 0
        fits = min(builds(state, self._build, taker.required, most).number, most)
        return self._passing(taker.host, state, fits)


def _memory(group: Iterable[Guest]) -> int:
    return sum(guest.claim.memory_mb for guest in group)


def _order(group: Sequence[Guest]) -> tuple[int, int, list[str]]:
    """The smallest first; of equal ones those that can move while they run."""
    cold = sum(bool(guest.only_cold) for guest in group)
    return _memory(group), cold, [guest.claim.owner_id for guest in group]
