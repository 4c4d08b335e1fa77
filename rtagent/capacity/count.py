"""Counts: the capacity of a host, counted once for each of its revisions."""

from collections.abc import Callable, Sequence

from rtagent.capacity.catalogue import Catalogue, CatalogueFlavor, catalogue
from rtagent.capacity.room import Room, judged, room
from rtagent.capacity.stranded import Stranded, stranded
from rtagent.model.node_state import NodeState
from rtagent.model.request import Flavor
from rtagent.model.stored import Position


class Count:
    """The capacity of one state. Each part is counted when it is first asked for.

    The host must have been observed.
    """

    def __init__(self, state: NodeState, listed: Sequence[Flavor] = ()) -> None:
        """:param listed: the flavors of the operator's file."""
        self._state, self._listed = judged(state), listed
        self._rooms: dict[str, Room] = {}
        # No cached_property: in Python 3.11 it has one lock for the counts of all states.
        self._catalogue: Catalogue | None = None
        self._stranded: tuple[Stranded, ...] | None = None

    @property
    def catalogue(self) -> Catalogue:
        """The flavors that are counted."""
        if self._catalogue is None:
            self._catalogue = catalogue(self._state, self._listed)
        return self._catalogue

    def flavor(self, name: str) -> CatalogueFlavor | None:
        """Return a flavor, also one beyond the limit of the catalogue; None: there is none."""
        return next(iter(catalogue(self._state, self._listed, only=name).flavors), None)

    def room(self, flavor: CatalogueFlavor) -> Room:
        """Return the room of a flavor. Flavors whose guests need the same have the same room."""
        if flavor.required is None:
            return Room(never=flavor.error)
        if flavor.digest not in self._rooms:
            self._rooms[flavor.digest] = room(self._state, flavor.build, flavor.required)
        return self._rooms[flavor.digest]

    @property
    def stranded(self) -> tuple[Stranded, ...]:
        """What no flavor of the catalogue can use."""
        if self._stranded is None:
            rooms = [(flavor, self.room(flavor)) for flavor in self.catalogue.flavors]
            self._stranded = stranded(self._state, rooms)
        return self._stranded


class Counts:
    """The count of the latest revision of a host, which is not counted again while nothing changes.

    Threads that ask at the same time may both count, and get equal numbers: none waits for another.

    :param listed: returns the flavors of the operator's file, the same object while they are the
        same.
    """

    def __init__(self, listed: Callable[[], Sequence[Flavor]] = tuple) -> None:
        self._listed = listed
        # Held, because the identity of what is gone may be used again.
        self._flavors, self._version = listed(), 0
        self._kept: tuple[Position, Sequence[Flavor], Count] | None = None

    @property
    def version(self) -> int:
        """Another number after another file of flavors was read."""
        flavors = self._listed()
        if flavors is not self._flavors:
            self._flavors, self._version = flavors, self._version + 1
        return self._version

    def of(self, state: NodeState) -> Count:
        """Return the count of a state of a host that was observed."""
        kept, listed = self._kept, self._listed()
        if kept is not None and kept[0] == state.position and kept[1] is listed:
            return kept[2]
        count = Count(state, listed)
        self._kept = state.position, listed, count
        return count
