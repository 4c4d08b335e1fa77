"""A mirror with a thread, a client of Placement that others disturb, and a node whose allocations
are audited."""

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from rtagent.errors import PlacementError
from rtagent.model.policy import ManageAllocations, PlacementPolicy, Policy
from rtagent.placement import tree
from rtagent.placement.allocation_audit import AllocationVerdict
from rtagent.placement.allocation_auditor import AllocationAuditor, AuditReport, NodeView
from rtagent.placement.client import HttpPlacement
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.provider import Ownership, Tree
from rtagent.placement.synchroniser import Synchroniser
from rtagent.ports import NullReporter
from rtagent.service.loop import Loop, Rest
from tests.support.agents import POLICY, Agent
from tests.support.allocating_agents import consumer_content, resources_of
from tests.support.hosts import uid

#: Seconds for which a finding must be unchanged.
TERM = 300.0

_numbers = itertools.count(10)


class RunningMirror(PlacementMirror):
    """:param arguments: as of `PlacementMirror`: api, wanted, ownership, clock and reporter."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        clock = arguments[3]
        reporter = arguments[4] if len(arguments) > 4 else NullReporter()
        self._loop = Loop("mirror", None, clock, reporter)
        super().__init__(*arguments, wake=self._loop.wake, **options)
        self._loop.add("mirror", self._run_turn)

    def start(self) -> None:
        """Start the thread. The first round is due at once."""
        with suppress(PlacementError):
            self.sync_now(0)
        self._loop.start()

    def stop(self, timeout: float = 5.0) -> bool:
        """Start no further round. Return whether the running one ended within `timeout` seconds."""
        return self._loop.stop(timeout)

    def wait_synced(self, revision: int, timeout: float) -> bool:
        """Whether Placement has that revision, or a later one, within `timeout` seconds."""
        self.wake()
        deadline = time.monotonic() + timeout
        while self.revision < revision and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.revision >= revision

    def _run_turn(self) -> Rest:
        self.turn()
        return Rest(at_most=self.due_in)


class MeddlingPlacement:
    """Placement with another client, which acts right before or after a request.

    :ivar before: what the other client does, by name of the request. It happens once.
    :ivar after: the same after the request. If it raises, the response is lost.
    :ivar requests: the names of the requests, oldest first.
    """

    def __init__(self, api: HttpPlacement) -> None:
        self._api = api
        self.before: dict[str, Callable[[], object]] = {}
        self.after: dict[str, Callable[[], object]] = {}
        self.requests: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.requests.append(name)
        request = getattr(self._api, name)

        def meddled(*arguments: Any, **named: Any) -> Any:
            self.before.pop(name, _nothing)()
            response = request(*arguments, **named)
            self.after.pop(name, _nothing)()
            return response

        return meddled


def _nothing() -> None:
    """Do nothing."""


class AuditedNode:
    """A node, its agent's tracker, and Placement.

    :ivar api: Placement. :ivar enqueued: consumers to be written again.
    """

    def __init__(
        self,
        api: HttpPlacement,
        manage: ManageAllocations = ManageAllocations.NO,
        policy: Policy = POLICY,
        gpus: Iterable[str] = (),
    ) -> None:
        policy = replace(policy, placement=PlacementPolicy(manage_allocations=manage))
        # Each has a name of its own, because a real Placement has those of earlier tests, too.
        self.agent = Agent(next(_numbers), policy=policy, gpus=gpus)
        self.api = api
        self.meddler = MeddlingPlacement(self.api)
        self.trusted = True
        self.enqueued: list[str] = []
        self.more_urgent: Callable[[], object] = lambda: None
        self._synchroniser = Synchroniser(self.api, Ownership())
        self.sync()
        self.restart()

    def other_host(self) -> str:
        """Create the provider of another host, with the same inventories. Return its uuid."""
        uuid = uid()
        self.api.create_provider(uuid, f"p{uuid}")
        self.api.put_inventories(uuid, 0, self.api.inventories(self.uuid)["inventories"])
        return uuid

    def share_disk(self, provider: str) -> None:
        """Have guests take their disk from a provider that other hosts use, too."""
        state = self.agent.state
        placement = replace(state.policy.placement, disk_provider=provider)
        self.agent.tracker.set_policy(replace(state.policy, placement=placement))

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
            enqueue=self._enqueue,
            republish=self.sync_anew,
            give_way=self._give_way,
        )

    def _give_way(self) -> None:
        self.more_urgent()

    def tree(self) -> Tree:
        found = tree.build(self.agent.state, disabled=False, hypervisor_up=True)
        assert found is not None
        return found

    def sync(self) -> None:
        """Publish the inventories, as the mirror does."""
        assert self._synchroniser.sync(self.tree()).problems == ()

    def _enqueue(self, consumers: Collection[str]) -> None:
        self.agent.tracker.unwritten.add(consumers)
        self.enqueued += consumers

    def sync_anew(self) -> None:
        """Read everything and publish the inventories, as the mirror does at a refresh."""
        self._synchroniser.forget()
        self.sync()

    # -- audits -----------------------------------------------------------------------------------

    def run(self, *, drained: bool = True) -> AuditReport:
        """Audit. :param drained: the outbox is empty, because everything in it was written."""
        if drained:
            rows = self.agent.state.outbox.values()
            self.agent.tracker.unwritten.remove({row.consumer_uuid: row.revision for row in rows})
        return self.auditor.run()

    def settle(self) -> AuditReport:
        """Audit, wait until every finding counts, and audit again."""
        self.run()
        self.agent.clock.advance(TERM)
        return self.run()

    def verdicts(self) -> dict[str, AllocationVerdict]:
        """The settled findings, by consumer."""
        return {each.consumer.uuid: each.verdict for each in self.settle().settled}

    # -- Placement --------------------------------------------------------------------------------

    def allocate(
        self, consumer: str, resources: Mapping[str, int], provider: str | None = None
    ) -> None:
        """Add to a consumer's allocations, as a scheduler does."""
        self.write(consumer, {**self.parts(consumer), provider or self.uuid: resources})

    def write(self, consumer: str, parts: Mapping[str, Mapping[str, int]]) -> None:
        """Replace all allocations of a consumer."""
        self.api.put_consumer(consumer, consumer_content(parts, self.api.consumer(consumer)))

    def parts(self, consumer: str) -> dict[str, dict[str, int]]:
        """What Placement has for a consumer, by provider."""
        return resources_of(self.api.consumer(consumer))
