"""A node whose allocations in Placement are audited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from rtagent.model.consumers import consumers_of
from rtagent.model.placement_policy import ManageAllocations, PlacementPolicy
from rtagent.placement import tree
from rtagent.placement.allocation_audit import Verdict
from rtagent.placement.allocation_auditor import AllocationAuditor, AuditReport, NodeView
from rtagent.placement.memory import MemoryPlacement
from rtagent.placement.ownership import MemoryOwnership
from rtagent.placement.provider import Tree
from rtagent.placement.synchroniser import Synchroniser
from rtagent.ports import NullReporter, PlacementAPI
from tests.support.agents import POLICY, Agent

#: Seconds for which a finding must be unchanged.
TERM = 300.0


class MeddlingPlacement:
    """Placement with another client, which acts right before a request.

    :ivar before: what the other client does, by name of the request. It happens once.
    """

    def __init__(self, api: PlacementAPI) -> None:
        self._api = api
        self.before: dict[str, Callable[[], object]] = {}

    def __getattr__(self, name: str) -> Any:
        meddle = self.before.pop(name, None)
        if meddle is not None:
            meddle()
        return getattr(self._api, name)


class AuditedNode:
    """A node, its agent's tracker, and Placement.

    :ivar api: Placement; a fake by default. :ivar enqueued: consumers to be written again.
    :ivar republished: how often the inventories were to be written again.
    """

    def __init__(
        self,
        *,
        manage: ManageAllocations = ManageAllocations.NO,
        api: PlacementAPI | None = None,
        agent: Agent | None = None,
    ) -> None:
        self.agent = agent or Agent(policy=managed(manage))
        self.api = api or MemoryPlacement()
        self.meddler = MeddlingPlacement(self.api)
        self.trusted = True
        self.enqueued: list[str] = []
        self.republished = 0
        self._synchroniser = Synchroniser(self.api, MemoryOwnership())
        self.sync()
        self.restart()

    @property
    def uuid(self) -> str:
        return self.agent.node.uuid

    def restart(self) -> None:
        """Start an auditor that remembers nothing."""
        view = NodeView(
            state=lambda: self.agent.state,
            tree=self.tree,
            ended=lambda owners: self.agent.store.ended(self.uuid, owners),
            trusted=lambda: self.trusted,
            term=lambda: TERM,
        )
        self.auditor = AllocationAuditor(
            self.meddler,
            view,
            self.agent.clock,
            NullReporter(),
            enqueue=self.enqueued.append,
            republish=self._republish,
        )

    def tree(self) -> Tree:
        found = tree.build(self.agent.state, disabled=False, hypervisor_up=True)
        assert found is not None
        return found

    def sync(self) -> None:
        """Publish the inventories, as the mirror does."""
        assert self._synchroniser.sync(self.tree()).problems == ()

    def _republish(self) -> None:
        self.republished += 1
        self._synchroniser.forget()
        self.sync()

    # -- audits -----------------------------------------------------------------------------------

    def run(self) -> AuditReport:
        return self.auditor.run()

    def settle(self) -> AuditReport:
        """Audit, wait until every finding counts, and audit again."""
        self.run()
        self.agent.clock.advance(TERM)
        return self.run()

    def verdicts(self) -> dict[str, Verdict]:
        """The settled findings, by consumer."""
        return {each.consumer.uuid: each.verdict for each in self.settle().settled}

    # -- Placement --------------------------------------------------------------------------------

    def allocate(
        self, consumer: str, resources: Mapping[str, int], provider: str | None = None
    ) -> None:
        """Add to a consumer's allocations, as a scheduler does."""
        content = self.api.consumer(consumer)
        parts = {name: part["resources"] for name, part in content["allocations"].items()}
        self.write(consumer, {**parts, provider or self.uuid: resources})

    def write(self, consumer: str, parts: Mapping[str, Mapping[str, int]]) -> None:
        """Replace all allocations of a consumer."""
        content = self.api.consumer(consumer)
        self.api.put_consumer(
            consumer,
            {
                "allocations": {name: {"resources": part} for name, part in parts.items()},
                "consumer_generation": content.get("consumer_generation"),
                "consumer_type": content.get("consumer_type", "INSTANCE"),
                "project_id": "p",
                "user_id": "u",
            },
        )

    def allocate_claims(self, owner: str) -> None:
        """Write what Placement should have for the owner's claims."""
        for consumer in consumers_of(self.agent.state, owner).values():
            self.write(consumer.uuid, consumer.parts)

    def parts(self, consumer: str) -> dict[str, Mapping[str, int]]:
        """What Placement has for a consumer, by provider."""
        content = self.api.consumer(consumer)
        return {name: part["resources"] for name, part in content["allocations"].items()}


def managed(manage: ManageAllocations, policy=POLICY):
    """The policy with this choice for `[placement] manage_allocations`."""
    return replace(policy, placement=PlacementPolicy(manage_allocations=manage))
