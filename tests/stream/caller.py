"""Callers: each in its thread, patient, and sure of what it was told."""

import random
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from rtagent.errors import ClaimConflict, ComputeResourcesUnavailable, Unavailable
from rtagent.rpc.client import UNANSWERED
from tests.stream.deed import Deed, Writer
from tests.stream.ledger import Ledger, granted

#: Seconds between two attempts, and for which one answer is waited for in all unless it is said.
PAUSE = 0.1
PATIENCE = 180.0
#: How many live claims a caller has at most.
CLAIMS = 6


class Lost(Exception):
    """The agent died, or was not there: whether the call had an effect is not known."""


class Agent(Protocol):
    """Something that answers calls."""

    def invoke(self, method: str, **document: Any) -> Any:
        """The method's answer.

        :raises RtAgentError: Lost: one of `UNANSWERED`:
        """
        ...


def attempt(agent: Agent, deed: Deed) -> Any:
    """One call; its answer is what it must be."""
    answer = agent.invoke(deed.method, **deed.document)
    if deed.method == "instance_claim":
        wanted = granted(deed)
        assert answer["uuid"] == wanted.uuid
        for name in ("owner_id", "vcpus", "memory_mb", "disk_mb"):
            assert answer[name] == getattr(wanted, name)
    return answer


class Caller:
    """Claims, and steps of its claims' lives, one after the other.

    :ivar setbacks: how often a deed had to be repeated. :ivar error: what ended it too early.
    """

    def __init__(self, agent: Agent, ledger: Ledger, seed: object, patience: float) -> None:
        self._agent, self._ledger, self._patience = agent, ledger, patience
        self._rng = random.Random(repr(seed))
        self._writer = Writer(self._rng)
        self._mine: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.setbacks = 0
        self.error: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Have it begin nothing new, and wait until it has its last answer."""
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

    def _next(self) -> Deed:
        """What it does now: mostly the next step in the life of one of its claims."""
        if not self._mine or (len(self._mine) < CLAIMS and self._rng.random() < 0.4):
            return self._writer.claim(vcpus=self._rng.randint(1, 3))
        uuid = self._rng.choice(self._mine)
        told = self._ledger.told(uuid)
        steps: list[Callable[[], Deed]] = [
            lambda: self._writer.step("renew_claim", uuid),
            lambda: self._writer.step("abort_instance_claim", uuid),
            lambda: self._writer.step("release_claim", uuid),
            lambda: self._writer.news(uuid, told.owner_id, "active"),
            lambda: self._writer.news(uuid, told.owner_id, "deleted"),
            # Of an owner that has a claim already: to be refused.
            lambda: self._writer.claim(told.owner_id),
            self._writer.build_failed,
        ]
        if told.state == "building":
            steps += [lambda: self._writer.step("activate_claim", uuid)] * 3
        return self._rng.choice(steps)()

    def _do(self, deed: Deed) -> None:
        self._ledger.begin(deed)
        try:
            self._insist(deed)
        except (ComputeResourcesUnavailable, ClaimConflict):
            assert deed.method == "instance_claim"
            self._ledger.refused(deed)
            # An attempt of before, still on its way, shall not be granted.
            self._do(self._writer.step("abort_instance_claim", deed.claim_uuid))
            return
        self._ledger.done(deed)
        if deed.method == "instance_claim":
            self._mine.append(deed.claim_uuid)
        elif deed.method != "build_failed" and deed.effect[1] == "released":
            self._mine = [uuid for uuid in self._mine if uuid != deed.claim_uuid]

    def _insist(self, deed: Deed) -> None:
        """Repeat it, under its operation id, until there is an answer."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                attempt(self._agent, deed)
                return
            except (Unavailable, Lost, *UNANSWERED):
                self.setbacks += 1
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)


class Stream:
    """Several callers at once, for the length of the block."""

    def __init__(
        self, agent: Agent, seed: object, callers: int = 8, patience: float = PATIENCE
    ) -> None:
        """:param patience: seconds for which one answer is waited for in all."""
        self.ledger, self._patience = Ledger(), patience
        self._callers = [Caller(agent, self.ledger, (seed, n), patience) for n in range(callers)]

    @property
    def setbacks(self) -> int:
        return sum(caller.setbacks for caller in self._callers)

    def wait_answers(self, number: int) -> None:
        """Until so many more deeds were answered."""
        goal = self.ledger.answers + number
        deadline = time.monotonic() + self._patience
        while self.ledger.answers < goal:
            for caller in self._callers:
                if caller.error is not None:
                    raise caller.error
            assert time.monotonic() < deadline, "the callers are not answered"
            time.sleep(0.01)

    def finish(self) -> None:
        """Until each caller has its last answer."""
        for caller in self._callers:
            caller.finish()

    def __enter__(self) -> Self:
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()
