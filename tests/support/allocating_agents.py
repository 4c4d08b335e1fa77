"""Agents that write the allocations of their claims to one Placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from rtagent.model.consumers import consumers_of
from rtagent.model.placement_policy import ManageAllocations, PlacementPolicy
from rtagent.placement import tree
from rtagent.placement.allocation_outbox import AllocationOutbox, OutboxSource
from rtagent.placement.api import PlacementAPI
from rtagent.placement.schedule import LAST_RETRY
from rtagent.testing.failing_store import FailingStore
from tests.support.agents import POLICY, Agent
from tests.support.hosts import ManualClock

MANAGED = replace(POLICY, placement=PlacementPolicy(manage_allocations=ManageAllocations.YES))


class AllocatingAgent(Agent):
    """An agent with an outbox, whose turns the test runs.

    :ivar api: Placement. :ivar outbox: of the current process.
    """

    def __init__(
        self, number: int, api: PlacementAPI, clock: ManualClock, policy: Any = MANAGED, **more: Any
    ) -> None:
        self.api = api
        super().__init__(number, clock=clock, policy=policy, **more)

    def start(
        self, machine: str = "m", prepare: Callable[[FailingStore], object] = lambda store: None
    ) -> None:
        super().start(machine, prepare)
        source = OutboxSource(
            state=self.tracker.snapshot,
            ready=lambda: True,
            owns=lambda uuid: False,
            enqueue=self.tracker.unwritten.add,
            remove=self.tracker.unwritten.remove,
        )
        self.outbox = AllocationOutbox(self.api, source, self.clock, jitter=lambda: 0.5)
        self.tracker.listen(self.outbox.listener)

    def publish(self) -> None:
        """Create the providers with their inventories, as the mirror does."""
        wanted = tree.build(self.state, disabled=False, hypervisor_up=True)
        assert wanted is not None
        for provider in wanted.providers:
            self.api.create_provider(provider.uuid, provider.name, provider.parent)
            self.api.ensure_classes(sorted(provider.inventories))
            generation = (self.api.provider(provider.uuid) or {})["generation"]
            records = msgspec.to_builtins(provider.inventories)
            self.api.put_inventories(provider.uuid, generation, records)

    def wanted(self) -> dict[str, dict[str, Mapping[str, int]]]:
        """What each consumer should have on this node's providers."""
        return {
            uuid: {provider: dict(part) for provider, part in consumer.parts.items()}
            for owner in self.state.owners
            for uuid, consumer in consumers_of(self.state, owner).items()
        }

    def found(self) -> dict[str, dict[str, Mapping[str, int]]]:
        """What Placement has for each consumer on this node's providers."""
        found: dict[str, dict[str, Mapping[str, int]]] = {}
        for each in self.api.tree(self.node.uuid):
            for uuid, part in self.api.allocations(each["uuid"])["allocations"].items():
                found.setdefault(uuid, {})[each["uuid"]] = dict(part["resources"])
        return found

    def usage(self) -> Counter[str]:
        """What is allocated from this node, by resource class."""
        used = Counter[str]()
        for parts in self.found().values():
            for resources in parts.values():
                used.update(resources)
        return used


def settle(*agents: AllocatingAgent) -> None:
    """Run turns until every agent has written everything; fail if that takes too many."""
    for _ in range(20):
        for agent in agents:
            agent.clock.advance(LAST_RETRY)
            agent.outbox.turn()
        if not any(agent.stored.outbox for agent in agents):
            return
    left = {agent.node.host: dict(agent.stored.outbox) for agent in agents}
    raise AssertionError(f"not written: {left}; {[agent.outbox.error for agent in agents]}")
