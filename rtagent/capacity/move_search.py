"""The search for the cheapest moves of guests after which further builds of a flavor fit.

It goes backwards. Builds get room only on a host that guests leave. So it first finds groups of
guests whose departure makes enough room, and then hosts that take these guests: as they are, after
another guest has left one of them, or by way of another host, from which the guest comes back to
another place on its own. Each plan is folded onto the states, move by move, and counted.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, permutations

from msgspec.structs import replace

from rtagent.capacity.fleet import JudgedHost
from rtagent.capacity.guest_moves import COLD, Guest, arrived, bound_of, guests, left
from rtagent.capacity.rooms import Rooms
from rtagent.model.base import Value
from rtagent.model.migration import MigrationType
from rtagent.model.node_state import NodeState

#: The most moves of one plan.
MAX_MOVES = 3
#: Of hosts that lose equally much room to a guest, so many are tried: another move of the plan may
#: need one of them, or leave it.
_EQUAL = 2 * MAX_MOVES

#: Returns the uuids of the nodes that may be the destination of a guest, by the kind of its move.
#: Whether they have room for it is not judged.
Destinations = Callable[[Guest, MigrationType], Sequence[str]]
#: One move: the guest, the uuid of its destination, and the kind.
Step = tuple[Guest, str, MigrationType]
#: A guest that has to move, and the uuid of the only host to which it may; None: to any.
_Task = tuple[Guest, str | None]
#: Guests that leave their hosts.
Group = tuple[Guest, ...]
#: The states of the hosts that moves have changed, by uuid.
States = dict[str, NodeState]


class Plan(Value, frozen=True, kw_only=True):
    """:ivar cost: the memory of the guests in MB, and how many move cold."""

    cost: tuple[int, int]
    steps: tuple[Step, ...]
    states: States


class _Course(Value, frozen=True):
    """A plan that is being made. :ivar tasks: the guests that have still to move.
    :ivar steps: the moves that were made. :ivar states: those after them.
    """

    tasks: tuple[_Task, ...]
    steps: tuple[Step, ...] = ()
    states: States = {}


class MoveSearch:
    """A search.

    :ivar hosts: by uuid. :ivar cut_short: it had to end.
    :ivar searched: the number of groups that were examined.
    """

    def __init__(
        self,
        hosts: Iterable[JudgedHost],
        rooms: Rooms,
        destinations: Destinations,
        is_over: Callable[[], bool],
    ) -> None:
        self.hosts = {host.uuid: host for host in hosts}
        self._rooms, self._destinations, self._is_over = rooms, destinations, is_over
        self._lacking = rooms.count - rooms.total
        self._guests: dict[str, Group] = {}
        self._gains: dict[tuple[str, ...], int] = {}
        self._takes: dict[bytes, frozenset[str]] = {}
        self._placed: dict[tuple[bytes, int], bool] = {}
        self._losses: dict[tuple[bytes, str], int | None] = {}
        self._shapes: dict[tuple[str, MigrationType], bytes] = {}
        self._openings: dict[tuple[bytes, int], list[tuple[Group, str]]] = {}
        self._limit, self.cut_short, self.searched = math.inf, False, 0

    def cheapest(self, number: int) -> Plan | None:
        """Return the cheapest plan of so many moves, of those that were searched."""
        best: Plan | None = None
        self._limit = math.inf
        everybody = chain.from_iterable(map(self._guests_on, self.hosts))
        if number > 1 and not any(self._can_move(guest, 0) for guest in everybody):
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

    def smallest_leaving(self) -> Guest | None:
        """Return the smallest guest whose departure alone would make enough room, or None."""
        groups = self._of_one_host(1, self._lacking)
        return next((group[0] for group in groups if self._gain(group) >= self._lacking), None)

    def _cuts(self) -> bool:
        self.cut_short = self.cut_short or self._is_over()
        return self.cut_short

    # -- guests that leave ------------------------------------------------------------------------

    def _groups(self, size: int, extra: int) -> Iterator[Group]:
        """Yield the groups of guests whose departure may make enough room."""
        for group in self._of_one_host(size, self._lacking):
            # What one of them cannot do, the departure of the others does not allow.
            if all(self._can_move(guest, extra) for guest in group):
                yield group
        # One host alone makes enough room if no build fits now and one is asked for: then no host
        # loses room, and nothing is gained by two.
        if size > 1 and (self._rooms.total or self._lacking > 1):
            yield from self._of_several_hosts(size)

    def _of_one_host(self, size: int, lacking: int) -> list[Group]:
        """Return groups on one host that may make so much room, smallest first."""
        groups: list[Group] = []
        for uuid, taker in self._rooms.takers.items():
            if self._cuts() and size > 1:  # single guests are needed for the obstacle, too
                break
            bound, least = taker.bound, taker.room + lacking
            given = [(guest, bound.parts(guest.claim)) for guest in self._guests_on(uuid)]
            for chosen in combinations(given, size):
                if bound.reaches(least, [parts for _, parts in chosen]):
                    groups.append(tuple(guest for guest, _ in chosen))
        return sorted(groups, key=_order)

    def _of_several_hosts(self, size: int) -> Iterator[Group]:
        """Yield groups on several hosts that each make some room."""
        ones, share = self._of_one_host(1, 1), -(-self._lacking // size)
        parts: Iterator[tuple[Group, ...]] = iter(())
        if share == 1 or self._of_one_host(1, share):  # one of them has to make that much
            parts = self._combined(ones, size)
        if size > 2:
            pairs = self._combined(self._of_one_host(2, 1), 1)
            parts = chain(
                parts, ((pair, *one) for (pair,) in pairs for one in self._combined(ones, 1, pair))
            )
        for chosen in parts:
            if len({group[0].host for group in chosen}) == len(chosen):
                yield tuple(chain.from_iterable(chosen))

    def _combined(
        self, groups: Sequence[Group], number: int, before: Group = (), start: int = 0
    ) -> Iterator[tuple[Group, ...]]:
        """Yield combinations of groups that make room, as long as they are cheap enough.

        :param groups: smallest first. :param before: guests that leave with them.
        """
        if not number:
            yield ()
            return
        for n, group in enumerate(groups[start:], start):
            if _memory(before) + number * _memory(group) >= self._limit or self._cuts():
                return
            if self._gain(group) > 0:
                for rest in self._combined(groups, number - 1, (*before, *group), n + 1):
                    yield (group, *rest)

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
            if state is None:
                return 0
            self._gains[key] = self._rooms.number(uuid, state) - self._rooms.now(uuid)
        return self._gains[key]

    def _guests_on(self, uuid: str) -> Group:
        if uuid not in self._guests:
            self._guests[uuid] = tuple(guests(self.hosts[uuid]))
        return self._guests[uuid]

    # -- hosts that take them ---------------------------------------------------------------------

    def _of_group(self, group: Group, extra: int) -> Plan | None:
        """Return a plan that moves these guests, with so many further moves."""
        for order in permutations(group):
            plan = self._plan(_Course(tuple((guest, None) for guest in order)), extra)
            if plan is not None:
                return plan
        return None

    def _plan(self, course: _Course, extra: int) -> Plan | None:
        """Return a plan of the steps that were made, with the tasks and further moves."""
        if not course.tasks:
            return self._checked(course)
        (guest, only), *others = course.tasks
        rest = replace(course, tasks=tuple(others))
        for uuid, kind in self._ways(guest, only, course.states):
            after = self._after(guest, uuid, kind, course.states)
            if after is not None:
                steps = (*course.steps, (guest, uuid, kind))
                plan = self._plan(replace(rest, steps=steps, states=after), extra)
                if plan is not None:
                    return plan
        if not extra or only is not None:
            return None
        plans = (
            self._after_others(guest, rest, extra),
            self._there_and_back(guest, rest, extra - 1),
        )
        return min(filter(None, plans), key=lambda plan: plan.cost, default=None)

    def _checked(self, course: _Course) -> Plan | None:
        """Return the plan, if the builds fit after it."""
        cold = sum(kind == COLD for _, _, kind in course.steps)
        memory = _memory(guest for guest, _, _ in course.steps)
        plan = Plan(cost=(memory, cold), steps=course.steps, states=course.states)
        return plan if self.number_after(plan, self._rooms.count) >= self._rooms.count else None

    def number_after(self, plan: Plan, most: int) -> int:
        """Return the number of builds that succeed after a plan, counted on a host up to `most`."""
        changes = (
            self._rooms.number(uuid, state, most) - self._rooms.now(uuid)
            for uuid, state in plan.states.items()
        )
        return self._rooms.total + sum(changes)

    def _after_others(self, guest: Guest, rest: _Course, extra: int) -> Plan | None:
        """Return a plan in which other guests make way for a guest at its destination."""
        moving = [guest, *(step[0] for step in rest.steps), *(task[0] for task in rest.tasks)]
        moved, memory = {each.claim.uuid for each in moving}, _memory(moving)
        allowed = set(self.allowed(guest, guest.kinds[-1]))
        for number in range(1, extra + 1):
            for others, uuid in self._makes_way(guest, number):
                if memory + _memory(others) >= self._limit:
                    break
                if self._cuts():
                    return None
                left_over, uuids = extra - number, {other.claim.uuid for other in others}
                able = all(self._can_move(other, left_over) for other in others)
                if uuid not in allowed or not able or not moved.isdisjoint(uuids):
                    continue
                tasks = (*((other, None) for other in others), (guest, uuid), *rest.tasks)
                plan = self._plan(replace(rest, tasks=tasks), left_over)
                if plan is not None:
                    return plan
        return None

    def _makes_way(self, guest: Guest, number: int) -> list[tuple[Group, str]]:
        """Return so many guests of one host each, smallest first, after whose departure it may take
        a guest.
        """
        key = self._shape(guest, guest.kinds[-1]), number
        if key not in self._openings:
            found: list[tuple[Group, str]] = []
            for uuid in self._destinations(guest, guest.kinds[-1]):
                bound = bound_of(guest, self.hosts[uuid].state)
                if bound is not None and not self._cuts():
                    given = [(other, bound.parts(other.claim)) for other in self._guests_on(uuid)]
                    for chosen in combinations(given, number):
                        if bound.reaches(1, [parts for _, parts in chosen]):
                            found.append((tuple(other for other, _ in chosen), uuid))
            self._openings[key] = sorted(found, key=lambda way: _order(way[0]))
        return self._openings[key]

    def _there_and_back(self, guest: Guest, rest: _Course, extra: int) -> Plan | None:
        """Return a plan in which a guest comes back to another place on its own host."""
        way, host = next(self._ways(guest, None, rest.states), None), self.hosts[guest.host]
        without = left(host, rest.states.get(guest.host, host.state), guest)
        if way is None or without is None:
            return None
        uuid, kind = way
        back = arrived(without, guest, kind)
        if not isinstance(back, NodeState):
            return None
        steps = (*rest.steps, (guest, uuid, kind), (guest, guest.host, kind))
        states = {**rest.states, guest.host: back}
        return self._plan(replace(rest, steps=steps, states=states), extra)

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
            full = (uuid for uuid in untouched if not self._rooms.now(uuid))
            yield from ((uuid, kind) for uuid in self._taking(guest, kind, full))
            yield from ((uuid, kind) for uuid in allowed if uuid in states)
            losses: dict[int, list[str]] = {}
            for uuid in untouched:
                if self._rooms.now(uuid) and (loss := self._loss(guest, kind, uuid)) is not None:
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

    def _can_move(self, guest: Guest, extra: int) -> bool:
        """Return whether a guest may have a destination after so many other moves."""
        shape = self._shape(guest, guest.kinds[-1])
        if shape not in self._takes:
            taking = (
                self._taking(guest, kind, self._destinations(guest, kind), 2)
                for kind in guest.kinds
            )
            self._takes[shape] = frozenset(chain.from_iterable(taking))
        if not self._takes[shape] <= {guest.host}:
            return True
        if (shape, extra) not in self._placed:
            self._placed[shape, extra] = any(
                all(self._can_move(other, extra - number) for other in others)
                for number in range(1, extra + 1)
                for others, _ in self._makes_way(guest, number)
            )
        return self._placed[shape, extra]

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
            room = self._rooms.now(uuid)
            if not isinstance(after, NodeState):
                self._losses[key] = None
            else:
                self._losses[key] = room - self._rooms.number(uuid, after) if room else 0
        return self._losses[key]

    def _shape(self, guest: Guest, kind: MigrationType) -> bytes:
        key = guest.claim.uuid, kind
        if key not in self._shapes:
            self._shapes[key] = guest.shape(kind)
        return self._shapes[key]


def _memory(group: Iterable[Guest]) -> int:
    return sum(guest.claim.memory_mb for guest in group)


def _order(group: Sequence[Guest]) -> tuple[int, int, list[str]]:
    """The smallest first; of equal ones those that can move while they run."""
    cold = sum(bool(guest.only_cold) for guest in group)
    return _memory(group), cold, [guest.claim.owner_id for guest in group]
