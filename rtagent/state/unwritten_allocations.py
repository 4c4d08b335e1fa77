"""UnwrittenAllocations: the consumers whose allocations have to be written to Placement."""

from collections.abc import Collection, Mapping

from rtagent.model.change import Change
from rtagent.model.node_state import NodeState
from rtagent.model.policy import ManageAllocations
from rtagent.ports import Clock
from rtagent.state.writer import StateWriter


class UnwrittenAllocations:
    """The outbox of allocations. Each method may raise `StoreUnavailable` and `TrackerBusy`."""

    def __init__(self, writer: StateWriter, clock: Clock) -> None:
        self._writer, self._clock = writer, clock

    def add(self, consumers: Collection[str]) -> None:
        """Put these consumers into the outbox, so that their allocations are written again, if the
        agent manages allocations."""

        def decide(state: NodeState) -> tuple[Change | None, None]:
            if state.policy.placement.manage_allocations == ManageAllocations.NO or not consumers:
                return None, None
            unwritten = tuple(sorted(consumers))
            return Change(cause="placement", at=self._clock.now(), unwritten=unwritten), None

        self._writer.submit(decide, "placement")

    def remove(self, revisions: Mapping[str, int]) -> None:
        """Remove consumers from the outbox whose allocations Placement has.

        :param revisions: by consumer: those that were written. A consumer that has changed since
            stays.
        """

        def decide(state: NodeState) -> tuple[Change | None, None]:
            rows = ((uuid, state.outbox.get(uuid)) for uuid in sorted(revisions))
            written = tuple(u for u, row in rows if row and row.revision == revisions[u])
            if not written:
                return None, None
            return Change(cause="placement", at=self._clock.now(), written=written), None

        self._writer.submit(decide, "placement")
