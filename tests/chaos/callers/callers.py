"""Callers: all callers of a run."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from tests.chaos.callers.adversary import NAME, AdversaryLife, HostileRecorder
from tests.chaos.callers.caller import Caller
from tests.chaos.callers.domains import Domains
from tests.chaos.callers.guest_life import GuestLife
from tests.chaos.callers.operator_life import OperatorLife
from tests.chaos.callers.recorder import Recorder
from tests.chaos.callers.step import Life, Step
from tests.chaos.history import History
from tests.chaos.world.world import World

#: Seconds within which every call of a client has ended, whatever is at fault: three attempts,
#: each with its time-out, the time for reaching the broker, and the waits between them.
LONGEST_CALL = 180.0
#: The share of operators' work in the lives of the first caller; the others have guests only.
OPERATORS = 0.5


class CallFailed(Exception):
    """A caller has ended with an unexpected error."""


class Callers:
    """Eight callers, by default. :ivar domains: what they run on the hosts."""

    def __init__(self, world: World, history: History, seed: int, number: int = 8) -> None:
        files = {name: world.agents[name].directory / "host.xml" for name in world.simulated}
        self.domains = Domains(files, world.qemu, history)
        self._transport = world.open_transport()
        recorder = Recorder(self._transport, history)
        hosts = list(world.agents)
        self._callers = [self._caller(n, recorder, hosts, seed) for n in range(1, number + 1)]
        if world.keys is not None:
            self._callers.append(self._adversary(history, hosts, seed))

    def start(self) -> None:
        for caller in self._callers:
            caller.start()

    def pause(self) -> list[str]:
        """Begin no new calls, and wait for the last ones.

        :return: the callers whose calls have not ended within `LONGEST_CALL`.
        :raises CallFailed: a caller has ended.
        """
        for caller in self._callers:
            caller.pause()
        deadline = time.monotonic() + LONGEST_CALL
        waiting = [
            caller.name
            for caller in self._callers
            if not caller.wait_parked(max(0.0, deadline - time.monotonic()))
        ]
        self.check()
        return waiting

    def settle(self, timeout: float) -> list[Step]:
        """Find out the outcome of every call, while all callers are paused.

        :return: the calls whose outcome is still unknown.
        """
        deadline = time.monotonic() + timeout
        return [step for caller in self._callers for step in caller.settle(deadline)]

    def resume(self) -> None:
        for caller in self._callers:
            caller.resume()

    def check(self) -> None:
        """:raises CallFailed: a caller has ended."""
        for caller in self._callers:
            if caller.error is not None:
                raise CallFailed(f"{caller.name} ended: {caller.error!r}") from caller.error

    def close(self) -> None:
        for caller in self._callers:
            caller.pause()
        for caller in self._callers:
            caller.end()
        self._transport.cleanup()

    def _adversary(self, history: History, hosts: Sequence[str], seed: int) -> Caller:
        rng = random.Random(f"adversary {seed}")
        recorder = HostileRecorder(self._transport, history)
        return Caller(NAME, recorder, rng, AdversaryLife(rng, hosts, self._transport).run)

    def _caller(self, number: int, recorder: Recorder, hosts: Sequence[str], seed: int) -> Caller:
        rng = random.Random(f"caller {seed} {number}")

        def new_life() -> Life:
            if number == 1 and rng.random() < OPERATORS:
                return OperatorLife(rng, hosts, self.domains).run()
            return GuestLife(rng, hosts, self.domains).run()

        return Caller(f"caller-{number}", recorder, rng, new_life)
