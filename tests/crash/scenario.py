"""Scenario: one deployment, the operations that callers made in it, and ways to kill its agent."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.servers.daemon import wait_until
from tests.support.workload.caller import attempt
from tests.support.workload.checker import Checker, Record, held, shown
from tests.support.workload.deployment import PATIENCE, Home
from tests.support.workload.ledger import KnownClaim, Ledger, Operation, OperationFactory


class Scenario:
    """One deployment over many agent processes.

    :ivar ledger: what any of these processes acknowledged.
    """

    def __init__(self, home: Home, seed: object) -> None:
        self.home, self.ledger = home, Ledger()
        self.rng = random.Random(repr(seed))
        self.factory = OperationFactory(self.rng)
        self._checker: Checker | None = None

    # -- operations -------------------------------------------------------------------------------

    def do(self, operation: Operation) -> Any:
        """Make an operation that must succeed; return its answer."""
        self.ledger.begin(operation)
        answer = attempt(self.home, operation)
        self.ledger.done(operation)
        return answer

    def reserve(self, memory_mb: int) -> None:
        """Reserve so much more memory for the host itself."""
        self.ledger.state.reserved_memory_mb += memory_mb
        self.home.set_reserve(self.ledger.state.reserved_memory_mb)

    def build(self) -> KnownClaim:
        """Make a new claim, which is in state building."""
        return self.ledger.claim(self.do(self.factory.claim())["uuid"])

    # -- kill and start ---------------------------------------------------------------------------

    def dies_during(self, ask: Callable[[], Any]) -> None:
        """Make a call during which the agent is killed by its failpoint; wait until it is dead."""
        call_in_background(ask)
        self.home.wait_died()

    def start(self, failpoint: str = "") -> None:
        """Start the agent, again if needed until it survives its start.

        It can reach the failpoint while it starts, for instance in what its first audit has to
        write. A process without the failpoint then completes that work.
        """
        while not self.home.start(failpoint):
            self.check_database()
            assert self.home.start()
            self.home.kill()

    # -- checks -----------------------------------------------------------------------------------

    def check_database(self) -> Record:
        """Check that the database agrees with the ledger."""
        if self._checker is None:  # the agent may have to create the database first
            self._checker = Checker(self.home.url, vcpus=self.home.vcpus)
        return self._checker.check(self.ledger)

    def check(self) -> Record:
        """Check that the database and the running agent agree with the ledger."""
        record = self.check_database()
        answer = self.home.invoke("get_claims_for_host")
        assert shown(answer["claims"]) == held(self.ledger)
        assert not answer["stale"]
        return record

    def wait_consistent(self) -> None:
        """Wait until the database agrees with the ledger."""
        wait_until(self._consistent, PATIENCE)

    def _consistent(self) -> bool:
        try:
            self.check_database()
        except AssertionError:
            return False
        return True

    def close(self) -> None:
        self.home.close()
        if self._checker is not None:
            self._checker.close()


@contextmanager
def noted(note: str) -> Iterator[None]:
    """Say in an error of the block what was going on."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise


def call_in_background(ask: Callable[[], Any]) -> None:
    """Call in a thread and ignore the result."""

    def call() -> None:
        with suppress(Exception):  # the agent is killed during the call, so any error is possible
            ask()

    threading.Thread(target=call, daemon=True).start()
