"""A tracker with an outbox that writes its allocations to Placement in memory."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rtagent.errors import StoreUnavailable
from rtagent.model.consumers import consumers_of
from rtagent.model.placement_policy import ManageAllocations, PlacementPolicy
from rtagent.placement.allocation_outbox import AllocationOutbox, OutboxSource
from rtagent.placement.api import PlacementAPI
from rtagent.ports import Clock, NullReporter
from rtagent.testing.memory_store import MemoryStore
from rtagent.testing.placement import MemoryPlacement
from rtagent.tracker import ResourceTracker
from tests.support.hosts import NODE, ManualClock
from tests.support.trackers import tracker_on

RECORD = {
    "total": 1000,
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 1000,
    "step_size": 1,
    "allocation_ratio": 1.0,
}
LARGE_RECORD = {**RECORD, "total": 10**6, "max_unit": 10**6}


class RecordingReporter(NullReporter):
    """Records the health and the log lines."""

    def __init__(self) -> None:
        self.healths: list[tuple[str, str, str]] = []
        self.lines: list[tuple[str, str]] = []

    def health(self, part: str, status: str, output: str = "") -> None:
        self.healths.append((part, status, output))

    def log(self, level: str, sentence: str) -> None:
        self.lines.append((level, sentence))

    def named(self, origin: str) -> RecordingReporter:
        return self


def manage(tracker: ResourceTracker, mode: str) -> None:
    """Set ``manage_allocations``, as a reload does."""
    placement = PlacementPolicy(manage_allocations=ManageAllocations(mode))
    tracker.set_policy(replace(tracker.snapshot().policy, placement=placement))


def prepare(api: MemoryPlacement, node_uuid: str = NODE.uuid) -> MemoryPlacement:
    """Give Placement the inventories of the node."""
    api.create_provider(node_uuid, "cn1")
    inventories = {"VCPU": RECORD, "MEMORY_MB": LARGE_RECORD, "DISK_GB": RECORD}
    api.put_inventories(node_uuid, 0, inventories)
    api.requests.clear()
    return api


class OutboxSetup:
    """:ivar ready: whether the mirror has published. :ivar removals: whether the store works."""

    def __init__(
        self,
        mode: str = "yes",
        api: PlacementAPI | None = None,
        store: Any = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock, self.mode = clock or ManualClock(), mode
        self.store = store or MemoryStore()
        self.api: Any = api or prepare(MemoryPlacement())
        self.ready = self.removals = True
        self.reporter = RecordingReporter()
        self.restart()

    def restart(self) -> None:
        """Load the state from the store, as a new process does."""
        self.tracker = tracker_on(self.store, self.clock)
        manage(self.tracker, self.mode)
        source = OutboxSource(
            state=self.tracker.snapshot,
            ready=lambda: self.ready,
            owns=lambda uuid: False,
            enqueue=self.tracker.unwritten.add,
            remove=self._remove,
        )
        self.outbox = AllocationOutbox(
            self.api, source, self.clock, self.reporter, jitter=lambda: 1.0
        )
        self.tracker.listen(self.outbox.listener)

    def _remove(self, revisions: dict[str, int]) -> None:
        if not self.removals:
            raise StoreUnavailable("no store")
        self.tracker.unwritten.remove(revisions)

    def requests(self) -> list[str]:
        """The requests since the last call."""
        found = list(self.api.requests)
        self.api.requests.clear()
        return found

    def turn(self, after: float = 0.0) -> list[str]:
        """Run a turn, so many seconds later, and return its requests."""
        self.clock.advance(after)  # type: ignore[attr-defined]
        self.outbox.turn()
        return self.requests()

    def rows(self) -> set[str]:
        """The consumers in the stored outbox."""
        return {row.consumer_uuid for row in self.store.load(NODE.uuid).outbox}

    def allocated(self) -> dict[str, dict[str, int]]:
        """What Placement has on the node's root provider, by consumer."""
        found = self.api.allocations(NODE.uuid)["allocations"]
        self.api.requests.clear()
        return {uuid: dict(part["resources"]) for uuid, part in found.items()}

    def wanted(self) -> dict[str, dict[str, int]]:
        """What it should have."""
        state = self.tracker.snapshot()
        return {
            uuid: dict(consumer.parts[NODE.uuid])
            for owner in state.owners
            for uuid, consumer in consumers_of(state, owner).items()
        }
