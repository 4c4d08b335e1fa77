"""Rooms: how many builds of one flavor the hosts of a fleet take, as they are and after changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rtagent.allocation.requirements import Requirements, from_request
from rtagent.capacity.bounds import Bound
from rtagent.capacity.fleet import JudgedHost
from rtagent.capacity.room import Room, builds
from rtagent.errors import RequestError
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest

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
