"""Callers: all callers of a run."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from functools import partial

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging

from rtagent.rpc.trust.credentials import PrivateKey
from tests.chaos.callers.adversary import FORGER, REPLAYER, HostileRecorder, forgeries, replays
from tests.chaos.callers.caller import PAUSE, Caller
from tests.chaos.callers.domains import Domains
from tests.chaos.callers.guest_life import GuestLife
from tests.chaos.callers.operator_life import OperatorLife
from tests.chaos.callers.recorder import Recorder
from tests.chaos.callers.step import Life, Step
from tests.chaos.history import History
from tests.chaos.world.keys import CALLERS
from tests.chaos.world.world import World

#: Seconds within which every call of a client has ended, whatever is at fault: three attempts,
#: each with its time-out, the time for reaching the broker, and the waits between them.
LONGEST_CALL = 180.0
#: The share of operators' work in the lives of the first caller; the others have guests only.
OPERATORS = 0.5
#: The mean of the seconds between two calls of an adversary: most calls are those of the others.
HOSTILE_PAUSE = 0.5


class CallFailed(Exception):
    """A caller has ended with an unexpected error."""


class Callers:
    """Eight callers, by default. :ivar domains: what they run on the hosts."""

    def __init__(self, world: World, history: History, seed: int, number: int = 8) -> None:
        files = {name: world.agents[name].directory / "host.xml" for name in world.simulated}
        self.domains = Domains(files, world.qemu, history)
        self._patience, self._pause = world.patience, PAUSE / world.speed
        self._transports: list[oslo_messaging.RPCTransport] = []
        recorder = Recorder(self._opened(world, CALLERS), history)
        hosts = list(world.agents)
        self._callers = [self._caller(n, recorder, hosts, seed) for n in range(1, number + 1)]
        if world.keys is not None:
            unknown, known = PrivateKey.generate(CALLERS), world.keys.callers
            for name, calls, key in ((FORGER, forgeries, unknown), (REPLAYER, replays, known)):
                hostile = HostileRecorder(self._opened(world, name), history)
                rng = random.Random(f"{name} {seed}")
                life = partial(calls, rng, hosts, key)
                self._callers.append(Caller(name, hostile, rng, life, HOSTILE_PAUSE))

    def start(self) -> None:
        for caller in self._callers:
            caller.start()

    def pause(self) -> list[str]:
        """Begin no new calls, and wait for the last ones.

        :return: the callers whose calls have not ended in time.
        :raises CallFailed: a caller has ended.
        """
        for caller in self._callers:
            caller.pause()
        deadline = time.monotonic() + LONGEST_CALL * self._patience
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
        for transport in self._transports:
            transport.cleanup()

    def _opened(self, world: World, client: str) -> oslo_messaging.RPCTransport:
        """Return a new transport, which has a reply queue of its own, and is closed at the end."""
        self._transports.append(world.open_transport(client))
        return self._transports[-1]

    def _caller(self, number: int, recorder: Recorder, hosts: Sequence[str], seed: int) -> Caller:
        rng = random.Random(f"caller {seed} {number}")

        def new_life() -> Life:
            if number == 1 and rng.random() < OPERATORS:
                return OperatorLife(rng, hosts, self.domains).run()
            return GuestLife(rng, hosts, self.domains).run()

        name = f"caller-{number}"
        return Caller(name, recorder, rng, new_life, self._pause, self._patience)
