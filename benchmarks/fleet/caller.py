"""Caller: builds, moves and deletes servers by a conductor, one operation after the other."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from random import Random

from benchmarks.fleet.census import Placed
from benchmarks.fleet.conducting import MakeConductor
from benchmarks.fleet.flavors import FLAVORS, other_size, resources
from rtagent.conductor.errors import ServerNotFound
from rtagent.errors import RtAgentError
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec, Server, ServerOperation

#: The steps of a build whose time is taken.
STEPS = ("select", "claim")
BUILD, MOVE, DELETE = "build", "move", "delete"


class Caller:
    """:ivar placed: its servers, as its conductor answered, by uuid.
    :ivar done: operations that succeeded, by kind. :ivar failed: others, by their error.
    :ivar races: hosts that refused a claim although a scheduler had selected them.
    :ivar seconds: of each operation and of some steps, by name.
    """

    def __init__(self, number: int, make: MakeConductor, until: float) -> None:
        """:param until: when it stops, on the monotonic clock, even if operations are left."""
        self._conductor, self._random = make(self._began), Random(number)
        self._until, self._step = until, ("", 0.0)
        self.placed: dict[str, Placed] = {}
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.races = 0
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def work(self, builds: int, moves: int, deletes: int) -> None:
        """Make so many operations, mixed at random."""
        left = Counter({BUILD: builds, MOVE: moves, DELETE: deletes})
        while left.total() and time.monotonic() < self._until:
            possible = [kind for kind in left.elements() if self.placed or kind == BUILD]
            if not possible:
                return
            kind = self._random.choice(possible)
            left[kind] -= 1
            self._operate(kind)

    def _operate(self, kind: str) -> None:
        began = time.monotonic()
        uuid = self._random.choice(sorted(self.placed)) if kind != BUILD else ""
        try:
            {BUILD: self._build, MOVE: self._move, DELETE: self._delete}[kind](uuid)
        except RtAgentError as error:
            self.failed[type(error).__name__] += 1
            if uuid:
                self._read(uuid)
        else:
            self.done[kind] += 1
            self.seconds[kind].append(time.monotonic() - began)
        self._end_step()

    def _build(self, _: str) -> None:
        flavor = self._random.choice(FLAVORS)
        spec = RequestSpec(flavor=flavor, project_id="fleet", user_id="fleet")
        self._note(self._conductor.build(spec))

    def _move(self, uuid: str) -> None:
        kind = self._random.choice(("resize", "revert", "migrate", "live"))
        if kind == "live":
            self._note(self._conductor.live_migrate(uuid))
            return
        if kind == "migrate":
            self._conductor.cold_migrate(uuid)
        else:
            self._conductor.resize(uuid, other_size(self._flavor(uuid)))
        end = self._conductor.revert if kind == "revert" else self._conductor.confirm
        self._note(end(uuid))

    def _delete(self, uuid: str) -> None:
        self._conductor.delete(uuid)
        del self.placed[uuid]

    def _flavor(self, uuid: str) -> Flavor:
        return self._conductor.server(uuid).spec.flavor

    def _read(self, uuid: str) -> None:
        """Ask what became of a server after a failure."""
        try:
            self._note(self._conductor.server(uuid))
        except ServerNotFound:
            self.placed.pop(uuid, None)

    def _note(self, server: Server | None) -> None:
        assert server is not None
        if server.place is None:
            self.placed.pop(server.uuid, None)
        else:
            used = resources(server.spec.flavor)
            self.placed[server.uuid] = Placed(host=server.place.host, resources=used)

    # -- steps -------------------------------------------------------------------------------------

    def _began(self, operation: ServerOperation) -> None:
        """Take the time of the step that ends now."""
        self._end_step()
        if operation.kind == BUILD and operation.forward:
            self._step = operation.step, time.monotonic()
        self.races += operation.step == "claim" and operation.attempt > 1

    def _end_step(self) -> None:
        name, began = self._step
        if name in STEPS:
            self.seconds[name].append(time.monotonic() - began)
        self._step = "", 0.0
