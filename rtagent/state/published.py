"""What the state writer and the recovery of a stale state share: the last committed state, whether
decisions are refused, and the leases of claims by the agent's monotonic clock alone.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from immutables import Map

from rtagent.bus import Bus, WriterDown
from rtagent.errors import RtAgentError, WriterFenced
from rtagent.model.change import Change
from rtagent.model.claim import LEASED_STATES, Claim
from rtagent.model.node_state import NodeState
from rtagent.ports import Clock

#: How many notes of touched keys are kept before those that no audit needs are dropped.
NOTES = 1024


class PublishedState:
    """The state that everybody reads, without a lock.

    :ivar current: assigned by the leader of a batch, or by the recovery of a stale state.
    :ivar replacing: held by the one of them that replaces the state, with its commit or reload.
    """

    def __init__(self, state: NodeState) -> None:
        self.current = state
        self.replacing = threading.Lock()
        self._mutex = threading.Lock()
        self._bases: list[int] = []

    @contextmanager
    def observing(self) -> Iterator[NodeState]:
        """The base of an audit. As long as the context lasts, touched keys stay noted."""
        with self._mutex:
            base = self.current
            self._bases.append(base.revision)
        try:
            yield base
        finally:
            with self._mutex:
                self._bases.remove(base.revision)

    def pruned(self) -> NodeState:
        """The state without the notes of touched keys that no audit needs, if there are many."""
        state = self.current
        if len(state.touched) <= NOTES:
            return state
        with self._mutex:
            oldest = min(self._bases, default=state.revision)
        return state.pruned(oldest)


class WriterStatus:
    """Thread-safe. Staleness ends with a reload; a fault stays until the process ends.

    :ivar stale: why the state may be behind the database's, or "" when it is not.
    :ivar fault: `WriterFenced`: the process must stop. `InvariantViolated`: no claim is granted.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._changed = threading.Condition()
        self.stale = ""
        self.fault: RtAgentError | None = None

    @property
    def down(self) -> str:
        """Why every decision is refused, or "" when it is not."""
        return self.fault.message if isinstance(self.fault, WriterFenced) else self.stale

    def go_stale(self, why: str) -> None:
        """Refuse every decision until the state is reloaded."""
        with self._changed:
            self.stale = why or "the database does not answer"
            self._changed.notify_all()
        self._bus.publish(WriterDown())

    def reloaded(self) -> None:
        """The state is the database's again."""
        with self._changed:
            self.stale = ""
            self._changed.notify_all()

    def fail(self, error: RtAgentError) -> None:
        """Set the fault. `WriterFenced` is never replaced by another."""
        with self._changed:
            if not isinstance(self.fault, WriterFenced):
                self.fault = error
            self._changed.notify_all()
        self._bus.publish(WriterDown())

    def wait_up(self, timeout: float) -> bool:
        """Wait at most that many seconds until decisions are accepted; whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.down, timeout)


class Leases:
    """How long building and incoming claims last. Written by one thread at a time, the leader of a
    batch; read without a lock.
    """

    def __init__(self, clock: Clock, state: NodeState) -> None:
        self._clock = clock
        self._floor = 0.0
        self._ends: Map[str, float] = Map()
        self.begin(state)

    def begin(self, state: NodeState) -> None:
        """Start a full term for every lease of a state."""
        end = self._clock.monotonic() + state.policy.claim_expiry_time
        self._ends = Map({c.uuid: end for c in state.claims.values() if c.state in LEASED_STATES})

    def restart(self, term: float) -> None:
        """Let no lease end within `term` seconds: store or hypervisor were away."""
        self._floor = self._clock.monotonic() + term

    def update(self, before: NodeState, changes: Sequence[Change]) -> None:
        """Begin, renew and end leases according to committed changes."""
        ends = self._ends.mutate()
        end = self._clock.monotonic() + before.policy.claim_expiry_time
        for claim in (claim for change in changes for claim in change.puts + change.ends):
            if claim.state not in LEASED_STATES:
                ends.pop(claim.uuid, None)
            elif _is_new_lease(before.claims.get(claim.uuid), claim):
                ends[claim.uuid] = end
        self._ends = ends.finish()

    def lapsed(self) -> frozenset[str]:
        """Claims whose lease has lapsed."""
        now = self._clock.monotonic()
        if now < self._floor:
            return frozenset()
        return frozenset(uuid for uuid, end in self._ends.items() if end <= now)


def _is_new_lease(before: Claim | None, after: Claim) -> bool:
    return before is None or before.expires_at != after.expires_at
