"""Callers: each makes operations in its own thread until each has a definite answer."""

import random
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, Self

from rtagent.errors import ClaimConflict, ComputeResourcesUnavailable, Unavailable
from rtagent.rpc.calls import UNANSWERED
from tests.support.workload.ledger import Ledger, Operation, OperationFactory, granted

#: Seconds between two attempts; seconds until a caller gives up, by default.
PAUSE = 0.1
PATIENCE = 180.0
#: The most live claims of one caller.
CLAIMS = 6


class Lost(Exception):
    """The agent was killed or is not running: it is unknown whether the call had an effect."""


class Agent(Protocol):
    """An agent that answers calls."""

    def invoke(self, method: str, **document: Any) -> Any:
        """Return the method's answer.

        :raises RtAgentError: Lost: one of `UNANSWERED`:
        """
        ...


def attempt(agent: Agent, operation: Operation) -> Any:
    """Make one call; check and return its answer."""
    answer = agent.invoke(operation.method, **operation.document)
    if operation.method == "instance_claim":
        wanted = granted(operation)
        assert answer["uuid"] == wanted.uuid
        for name in ("owner_id", "vcpus", "memory_mb", "disk_mb"):
            assert answer[name] == getattr(wanted, name)
    return answer


class Caller:
    """Makes claims, and the steps of their lives, one operation after the other.

    :ivar retries: how often an operation was repeated. :ivar error: what ended the thread early.
    """

    def __init__(self, agent: Agent, ledger: Ledger, seed: object, patience: float) -> None:
        self._agent, self._ledger, self._patience = agent, ledger, patience
        self._rng = random.Random(repr(seed))
        self._factory = OperationFactory(self._rng)
        self._mine: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.retries = 0
        self.error: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Begin no new operation, and wait for the last answer."""
        self._ending.set()
        self._thread.join(self._patience * 2)
        if self.error is not None:
            raise self.error
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                self._do(self._next())
        except Exception as error:
            self.error = error

    def _next(self) -> Operation:
        """Choose the next operation: mostly a step in the life of one of its claims."""
        if not self._mine or (len(self._mine) < CLAIMS and self._rng.random() < 0.4):
            return self._factory.claim(vcpus=self._rng.randint(1, 3))
        uuid = self._rng.choice(self._mine)
        claim = self._ledger.claim(uuid)
        steps: list[Callable[[], Operation]] = [
            lambda: self._factory.step("renew_claim", uuid),
            lambda: self._factory.step("abort_instance_claim", uuid),
            lambda: self._factory.step("release_claim", uuid),
            lambda: self._factory.update(uuid, claim.owner_id, "active"),
            lambda: self._factory.update(uuid, claim.owner_id, "deleted"),
            # The owner has a claim already, so this one is refused.
            lambda: self._factory.claim(claim.owner_id),
            self._factory.build_failed,
        ]
        if claim.state == "building":
            steps += [lambda: self._factory.step("activate_claim", uuid)] * 3
        return self._rng.choice(steps)()

    def _do(self, operation: Operation) -> None:
        self._ledger.begin(operation)
        try:
            self._repeat(operation)
        except (ComputeResourcesUnavailable, ClaimConflict):
            assert operation.method == "instance_claim"
            self._ledger.refused(operation)
            # An earlier attempt that is still in transit must not be granted.
            self._do(self._factory.step("abort_instance_claim", operation.claim_uuid))
            return
        self._ledger.done(operation)
        if operation.method == "instance_claim":
            self._mine.append(operation.claim_uuid)
        elif operation.method != "build_failed" and operation.effect[1] == "released":
            self._mine = [uuid for uuid in self._mine if uuid != operation.claim_uuid]

    def _repeat(self, operation: Operation) -> None:
        """Repeat the operation under its id until there is an answer."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                attempt(self._agent, operation)
                return
            except (Unavailable, Lost, *UNANSWERED):
                self.retries += 1
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)


class Stream:
    """Several callers at once, during the block."""

    def __init__(
        self, agent: Agent, seed: object, callers: int = 8, patience: float = PATIENCE
    ) -> None:
        """:param patience: seconds until a caller gives up on one operation."""
        self.ledger, self._patience = Ledger(), patience
        self._callers = [Caller(agent, self.ledger, (seed, n), patience) for n in range(callers)]

    @property
    def retries(self) -> int:
        return sum(caller.retries for caller in self._callers)

    def wait_answers(self, number: int) -> None:
        """Wait until so many more operations were answered."""
        goal = self.ledger.answers + number
        deadline = time.monotonic() + self._patience
        while self.ledger.answers < goal:
            for caller in self._callers:
                if caller.error is not None:
                    raise caller.error
            assert time.monotonic() < deadline, "the callers are not answered"
            time.sleep(0.01)

    def finish(self) -> None:
        """Wait until each caller has its last answer."""
        for caller in self._callers:
            caller.finish()

    def __enter__(self) -> Self:
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.finish()
