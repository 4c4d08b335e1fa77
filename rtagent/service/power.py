"""Power: CPUs of the dedicated set are up while somebody holds them, and down while nobody does."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rtagent.errors import CpuPowerFailed
from rtagent.model.claim import Claim
from rtagent.model.host import HostState
from rtagent.ports import CpuPower, Reporter
from rtagent.service.loop import Rest

PART = "power"


class Power:
    """Thread-safe. A CPU goes down only when the state of that moment has no holder of it, and one
    that a claim is answered with is up before the answer."""

    def __init__(
        self,
        power: CpuPower,
        snapshot: Callable[[], HostState],
        reporter: Reporter,
        *,
        wanted: Callable[[], frozenset[int]],
        interval: Callable[[], float],
    ) -> None:
        """:param wanted: the CPUs to be managed by what is configured now.
        :param interval: seconds after which a CPU is looked at that somebody else may have
            switched; may be infinite."""
        self._power, self._snapshot, self._reporter = power, snapshot, reporter
        self._wanted, self._interval = wanted, interval
        self._lock = threading.Lock()
        self._last = frozenset[int]()
        self._begun = False

    @property
    def managed(self) -> frozenset[int]:
        """The CPUs that may be down: those that are managed no more until they are up."""
        return self._last | self._wanted()

    def all_up(self) -> None:
        """Before the host is looked at first. What fails shows in what is seen then."""
        with self._lock:
            self._try(lambda: self._power.up(self.managed))

    def begin(self) -> None:
        """The host has been seen whole: from now on CPUs may go down."""
        self._begun = True

    def turn(self) -> Rest:
        """Every managed CPU as it should be now; those that are managed no more are up."""
        if self._begun:
            with self._lock:
                self._turn(self._wanted())
        return Rest(at_most=self._interval())

    def _turn(self, wanted: frozenset[int]) -> None:
        held = wanted & self._snapshot().usage.numa.pinned.keys()
        self._last |= wanted
        if self._try(
            lambda: self._power.up(held | self._last - wanted),
            lambda: self._power.down(wanted - held),
        ):
            self._last = wanted

    def settle(self, claim: Claim) -> None:
        """Before a claim is answered: its CPUs are up. :raises CpuPowerFailed:"""
        if (place := claim.numa_topology) is not None:
            with self._lock:
                self._power.up(self.managed & place.taken - place.kept)

    def _try(self, *changes: Callable[[], None]) -> bool:
        """All of them, whichever fails. Whether none did."""
        failed = ""
        for change in changes:
            try:
                change()
            except CpuPowerFailed as error:
                failed = failed or error.message
        self._reporter.health(PART, "warn" if failed else "pass", failed)
        return not failed
