"""Rooms: how many builds of one flavor the hosts of a fleet take, as they are and after changes.

Bound: whether a host may take a number of builds after guests have left it, by arithmetic.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from rtagent.allocation.capacity import capacity_of
from rtagent.allocation.kept_views import host_for_new_owners
from rtagent.allocation.requirements import Requirements, from_request
from rtagent.capacity.fleet import JudgedHost
from rtagent.capacity.room import Room, builds
from rtagent.errors import RequestError
from rtagent.model.claim import Claim
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest
from rtagent.numa.host_cells import host_cells

#: What a claim gives back: vCPUs, CPUs, memory, disk, and then the CPUs of each cell.
Parts = tuple[int, ...]
#: The number of amounts.
_AMOUNTS = 4


class Bound:
    """The upper bound for the builds of one flavor on one host.

    The amounts of the host are divided by those of the flavor, and so are the CPUs of each cell for
    a guest of one cell. What else a guest needs is left out, so that the bound is quick, and too
    high rather than too low.
    """

    def __init__(self, state: NodeState, required: Requirements) -> None:
        assert state.topology is not None
        free, usage = capacity_of(state), required.usage
        limited = bool(required.limits)
        checked = not limited and free.disk_checked
        self._free = (
            *(free.free_vcpus, free.free_pcpus, free.free_memory_mb, free.free_disk_mb),
            *(cell.free_pcpus for cell in host_cells(host_for_new_owners(state))),
        )
        amounts = (
            0 if limited else usage.vcpus,
            usage.pcpus,
            0 if limited else usage.memory_mb,
            usage.disk_mb if checked else 0,
        )
        self._needs = [(n, need) for n, need in enumerate(amounts) if need]
        self._cells = tuple(cell.cpus for cell in state.topology.cells)
        guest_cells = required.numa.cells
        #: Dedicated CPUs of the largest guest cell, and whether there are others.
        self._in_cell = max((len(cell.pcpuset) for cell in guest_cells), default=0)
        self._whole = len(guest_cells) == 1

    def parts(self, claim: Claim) -> Parts:
        """Return what a claim gives back."""
        taken = claim.numa_topology.taken if claim.numa_topology else frozenset[int]()
        amounts = (claim.vcpus, claim.pcpus, claim.memory_mb, claim.disk_mb)
        return (*amounts, *(len(taken & cpus) for cpus in self._cells))

    def reaches(self, number: int, given: Sequence[Parts] = ()) -> bool:
        """Return whether the host may take so many builds.

        :param given: what the claims that leave give back.
        """
        free = self._free
        for n, need in self._needs:
            if free[n] + sum(parts[n] for parts in given) < number * need:
                return False
        if not self._in_cell:
            return True
        cpus = (free[n] + sum(parts[n] for parts in given) for n in range(_AMOUNTS, len(free)))
        fitting = sum(max(0, each) // self._in_cell for each in cpus)
        return fitting >= (number if self._whole else 1)


#: Returns how many of the builds that fit on a state of a host its filters let pass.
Passing = Callable[[JudgedHost, NodeState, int], int]


class Taker:
    """A host that takes builds. :ivar room: how many now, counted up to those asked for."""

    def __init__(self, host: JudgedHost, required: Requirements, counted: Room, room: int) -> None:
        self.host, self.required, self.counted = host, required, counted
        self.room, self.bound = room, Bound(host.state, required)


class Rooms:
    """The room of each host.

    :ivar takers: the hosts that take builds, by uuid.
    :ivar total: the number of builds that succeed now, if it is less than those asked for.
    :ivar error: why a host is left out that filters let through, or "".
    """

    def __init__(
        self, hosts: Iterable[JudgedHost], build: BuildRequest, count: int, passing: Passing
    ) -> None:
        """:param count: the number of builds that are asked for."""
        self.build, self.count, self._passing, self.error = build, count, passing, ""
        self.takers = {taker.host.uuid: taker for taker in self._takers(hosts)}
        self.total = sum(taker.room for taker in self.takers.values())

    def _takers(self, hosts: Iterable[JudgedHost]) -> Iterator[Taker]:
        for host in hosts:
            if host.refused or host.state.topology is None:
                continue
            try:
                required = from_request(self.build, host.state.policy)
                counted = builds(host.state, self.build, required, self.count)
            except RequestError as error:  # what its aliases make of the flavor
                self.error = error.message
                continue
            # A wrong report of one host must not end the search on all hosts.
            except Exception as error:
                self.error = f"{host.host} cannot be judged: {type(error).__name__}: {error}"
                continue
            room = self._passing(host, host.state, min(counted.number, self.count))
            yield Taker(host, required, counted, room)

    def now(self, uuid: str) -> int:
        """Return the room of a host, counted up to the builds that are asked for."""
        return self.takers[uuid].room if uuid in self.takers else 0

    def number(self, uuid: str, state: NodeState, most: int = 0) -> int:
        """Return the room of a state of a host. :param most: where it ends; 0: at `count`."""
        taker, most = self.takers.get(uuid), most or self.count
        if taker is None:
            return 0
        fits = min(builds(state, self.build, taker.required, most).number, most)
        return self._passing(taker.host, state, fits)
