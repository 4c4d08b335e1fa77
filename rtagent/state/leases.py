"""Leases: how long building and incoming claims last, by the agent's monotonic clock alone."""

from __future__ import annotations

from collections.abc import Sequence

from immutables import Map

from rtagent.model.change import Change
from rtagent.model.claim import LEASED_STATES, Claim
from rtagent.model.node_state import NodeState
from rtagent.ports import Clock


class Leases:
    """Written by one thread at a time, the leader of a batch; read without a lock."""

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
