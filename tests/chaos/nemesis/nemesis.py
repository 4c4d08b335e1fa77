"""Nemesis: draws faults from a seed, and injects them while a run goes on."""

import itertools
import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from tests.chaos.history import History
from tests.chaos.nemesis import FAULTS
from tests.chaos.nemesis.fault import Fault, NotYet
from tests.chaos.world.world import World

LOG = logging.getLogger(__name__)

#: How many faults go on at once.
AT_ONCE = 2
#: Seconds from the begin of a fault to the next begin, and to its own end.
PAUSES, DURATIONS = (1.0, 8.0), (1.0, 12.0)
#: Seconds after which a fault that could not end is tried again, and for how long, which is
#: multiplied by the `patience` of the world.
AGAIN, RECOVERY = 2.0, 180.0


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One fault of the plan.

    :ivar pause: seconds after the begin of the fault before it.
    :ivar lasts: seconds from its begin to its end.
    :ivar seed: of what the fault itself draws.
    """

    name: str
    pause: float
    lasts: float
    seed: str


def plan(seed: int, names: Collection[str]) -> Iterator[Planned]:
    """Yield faults without end. The sequence depends on the arguments only.

    Every fault occurs once before one occurs again.
    """
    draw = Random(f"nemesis {seed}")
    for number in itertools.count():
        for place, name in enumerate(draw.sample(sorted(names), len(names))):
            yield Planned(
                name=name,
                pause=draw.uniform(*PAUSES),
                lasts=draw.uniform(*DURATIONS),
                seed=f"fault {seed} {number} {place}",
            )


class Nemesis:
    """Injects the faults of the plan between `start` and `end_all`, in a thread of its own.

    :ivar failures: sentences about faults that could not be injected or ended: defects of the
        harness, or of this machine.
    :ivar impossible: the names of those that may occur, but that this world cannot have.
    """

    def __init__(
        self,
        world: World,
        seed: int,
        history: History,
        names: Collection[str] | None = None,
        registry: Mapping[str, type[Fault]] = FAULTS,
        speed: float = 1.0,
    ) -> None:
        """:param names: of the faults that may occur; None: all.
        :param speed: pauses and durations are divided by it, in addition to the world's.

        :raises ValueError: a name is not that of a fault, or no fault is left.
        """
        if unknown := set(names or ()) - registry.keys():
            known = ", ".join(sorted(registry))
            raise ValueError(f"no such fault: {', '.join(sorted(unknown))}; choose from {known}")
        wanted = names or registry
        chosen = [each for each in wanted if registry[each].applies(world)]
        self.impossible = tuple(sorted(set(wanted) - set(chosen)))
        if not chosen:
            raise ValueError(f"this world, on {world.database_kind}, can have none of {names}")
        self._world, self._history, self._registry = world, history, registry
        self._plan, self._speed = plan(seed, chosen), speed * world.speed
        self._next: Planned | None = None
        self._going: list[tuple[float, Fault]] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.failures: list[str] = []

    def start(self) -> None:
        """Go on with the plan. Returns at once."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="nemesis", daemon=True)
        self._thread.start()

    def end_all(self) -> None:
        """Begin no further fault, and end those that go on. Everything runs when this returns."""
        self.close()
        for link in self._world.links.values():
            link.heal()
        for part in self._world.parts:
            part.process.resume()
            part.process.start()
        deadline = time.monotonic() + RECOVERY * self._world.patience
        while self._going:
            self._end_now(time.monotonic() > deadline)
            if self._going:
                time.sleep(AGAIN / self._speed)

    def close(self) -> None:
        """Begin no further fault, and end those that can end at once."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._end_now(False)

    # -- in the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as exc:  # without faults the rest of the run would prove little
            LOG.exception("the nemesis has ended")
            self.failures.append(f"the nemesis has ended: {exc!r}")

    def _follow(self) -> None:
        """Inject what is planned until `_stopping`."""
        while not self._stopping.is_set():
            # An end of all faults interrupts a pause; what was to follow it is still next.
            self._next = planned = self._next or next(self._plan)
            fault = self._registry[planned.name]()
            self._wait(time.monotonic() + planned.pause / self._speed)
            while self._blocks(fault) and not self._stopping.is_set():
                self._wait(min(until for until, _ in self._going))
            if not self._stopping.is_set():
                self._next = None
                self._begin(fault, planned)

    def _blocks(self, fault: Fault) -> bool:
        """Return whether the fault must wait for the end of another one."""
        return len(self._going) >= AT_ONCE or any(
            fault.family in {going.family, *going.excludes} or going.family in fault.excludes
            for _, going in self._going
        )

    def _wait(self, until: float) -> None:
        """Wait until that time, and end what is due meanwhile."""
        while not self._stopping.is_set():
            due = min([until, *(ends for ends, _ in self._going)])
            if self._stopping.wait(max(due - time.monotonic(), 0.0)):
                return
            now = time.monotonic()
            for each in [each for each in self._going if each[0] <= now]:
                self._going.remove(each)
                self._end(each[1])
            if now >= until:
                return

    def _begin(self, fault: Fault, planned: Planned) -> None:
        since = time.monotonic()
        try:
            fault.begin(self._world, Random(planned.seed))
        except Exception as exc:
            self._failed(fault, "begin", exc)
            planned = replace(planned, lasts=0.0)
        details = {**fault.details, "since": since, "seed": planned.seed}
        self._history.fault(fault.name, "begin", fault.target, details)
        LOG.info("%s begins: %s %s", fault.name, fault.target, details)
        self._going.append((time.monotonic() + planned.lasts / self._speed, fault))

    def _end_now(self, is_last: bool) -> None:
        """End every fault. :param is_last: one that cannot end now is a failure."""
        going, self._going = self._going, []
        for _, fault in going:
            self._end(fault, is_last)

    def _end(self, fault: Fault, is_last: bool = False) -> None:
        try:
            fault.end(self._world)
        except NotYet as exc:
            if not is_last:
                LOG.info("%s goes on: %s", fault.name, exc)
                self._going.append((time.monotonic() + AGAIN / self._speed, fault))
                return
            self._failed(fault, "end", exc)
        except Exception as exc:
            self._failed(fault, "end", exc)
        self._history.fault(fault.name, "end", fault.target, fault.details)
        LOG.info("%s has ended", fault.name)

    def _failed(self, fault: Fault, what: str, error: Exception) -> None:
        LOG.exception("%s: %s failed", fault.name, what)
        self.failures.append(f"{fault.name} of {fault.target or 'nothing'}: {what}: {error!r}")
