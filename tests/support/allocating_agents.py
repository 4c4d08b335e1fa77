"""Agents that write the allocations of their claims to one Placement."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from msgspec.structs import replace

from rtagent.errors import RtAgentError
from rtagent.model.consumers import consumers_of
from rtagent.model.migration import MigrationFacts
from rtagent.model.node_state import NodeState
from rtagent.model.policy import ManageAllocations, PlacementPolicy
from rtagent.model.request import Flavor
from rtagent.placement import tree
from rtagent.placement.allocation_outbox import AllocationOutbox, OutboxSource
from rtagent.placement.client import HttpPlacement
from rtagent.placement.schedule import LAST_RETRY
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.memory_store import MemoryStore
from rtagent.testing.placement import MemoryPlacement
from rtagent.tracker import ResourceTracker
from tests.support.agents import LARGE, POLICY, SMALL, Agent
from tests.support.hosts import NODE, ManualClock, uid
from tests.support.trackers import Reports, tracker_on

MANAGED = replace(POLICY, placement=PlacementPolicy(manage_allocations=ManageAllocations.YES))


def outbox_source(tracker: ResourceTracker, **other: Any) -> OutboxSource:
    """What an outbox reads and changes of a tracker. :param other: fields, in place of these."""
    parts: dict[str, Any] = {"ready": lambda: True, "owns": lambda uuid: False, **other}
    return OutboxSource(
        state=tracker.snapshot,
        enqueue=tracker.unwritten.add,
        remove=tracker.unwritten.remove,
        **parts,
    )


def wanted_allocations(state: NodeState) -> dict[str, dict[str, dict[str, int]]]:
    """What each consumer should have on this node's providers."""
    return {
        uuid: {provider: dict(part) for provider, part in consumer.parts.items()}
        for owner in state.owners
        for uuid, consumer in consumers_of(state, owner).items()
    }


class AllocatingAgent(Agent):
    """An agent with an outbox, whose turns the test runs.

    :ivar api: Placement. :ivar outbox: of the current process.
    """

    def __init__(
        self,
        number: int,
        api: HttpPlacement,
        clock: ManualClock,
        policy: Any = MANAGED,
        **more: Any,
    ) -> None:
        self.api = api
        super().__init__(number, clock=clock, policy=policy, **more)

    def start(
        self, machine: str = "m", prepare: Callable[[FailingStore], object] = lambda store: None
    ) -> None:
        super().start(machine, prepare)
        source = outbox_source(self.tracker)
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

    def wanted(self) -> dict[str, dict[str, dict[str, int]]]:
        """What each consumer should have on this node's providers."""
        return wanted_allocations(self.state)

    def found(self) -> dict[str, dict[str, dict[str, int]]]:
        """What Placement has for each consumer on this node's providers."""
        found: dict[str, dict[str, dict[str, int]]] = {}
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


RECORD = {
    "total": 1000,
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 1000,
    "step_size": 1,
    "allocation_ratio": 1.0,
}
LARGE_RECORD = {**RECORD, "total": 10**6, "max_unit": 10**6}


def consumer_content(
    parts: Mapping[str, Mapping[str, int]], now: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """What a client writes for a consumer. :param now: what it has read of the consumer."""
    return {
        "allocations": {uuid: {"resources": dict(part)} for uuid, part in parts.items()},
        "consumer_generation": now.get("consumer_generation"),
        "consumer_type": now.get("consumer_type", "INSTANCE"),
        **{"project_id": "p", "user_id": "u"},
    }


def resources_of(content: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """The allocations in a document of Placement, by provider or by consumer."""
    return {uuid: part["resources"] for uuid, part in content["allocations"].items()}


def manage(tracker: ResourceTracker, mode: str) -> None:
    """Set ``manage_allocations``, as a reload does."""
    placement = PlacementPolicy(manage_allocations=ManageAllocations(mode))
    tracker.set_policy(replace(tracker.snapshot().policy, placement=placement))


class OutboxSetup:
    """:ivar ready: whether the mirror has published."""

    def __init__(self, mode: str = "yes", store: Any = None) -> None:
        self.clock, self.mode = ManualClock(), mode
        self.store = store or MemoryStore()
        self.api = MemoryPlacement()
        self.api.create_provider(NODE.uuid, "cn1")
        inventories = {"VCPU": RECORD, "MEMORY_MB": LARGE_RECORD, "DISK_GB": RECORD}
        self.api.put_inventories(NODE.uuid, 0, inventories)
        self.requests()
        self.ready = True
        self.reporter = Reports()
        self.restart()

    def restart(self) -> None:
        """Load the state from the store, as a new process does."""
        self.tracker = tracker_on(self.store, self.clock)
        manage(self.tracker, self.mode)
        source = outbox_source(self.tracker, ready=lambda: self.ready)
        self.outbox = AllocationOutbox(
            self.api, source, self.clock, self.reporter, jitter=lambda: 1.0
        )
        self.tracker.listen(self.outbox.listener)

    def requests(self) -> list[str]:
        """The requests since the last call."""
        found = list(self.api.requests)
        self.api.requests.clear()
        return found

    def turn(self, after: float = 0.0) -> list[str]:
        """Run a turn, so many seconds later, and return its requests."""
        self.clock.advance(after)
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
        wanted = wanted_allocations(self.tracker.snapshot())
        return {uuid: parts[NODE.uuid] for uuid, parts in wanted.items()}


Host = TypeVar("Host", bound=Agent)

HOSTS = st.integers(0, 1)
GUESTS = st.sampled_from([uid(n) for n in (701, 702, 703)])
KINDS = st.sampled_from(["resize", "migration", "live-migration", "evacuation"])
VERBS = st.sampled_from(
    [
        *("start_move_out", "finish_move", "finish_evacuation", "finish_revert"),
        *("drop_move_claim_at_source", "drop_move_claim_at_dest", "drop_move_claim"),
    ]
)
#: Chooses one of the flavors of a machine.
CHOICES = st.integers(0, 3)


class Lives(RuleBasedStateMachine, Generic[Host]):
    """Guests run, move and end on two hosts, whose agents are killed.

    :cvar flavors: of the guests. :ivar hosts: made by the machine. :ivar moves: the last move of a
        guest, by guest.
    """

    flavors: Sequence[Flavor] = (SMALL, LARGE)
    hosts: Sequence[Host] = ()

    def __init__(self) -> None:
        super().__init__()
        self.moves = dict[str, MigrationFacts]()

    def attempt(self, action: Callable[[], object]) -> None:
        """Make a call that may be illegal in this state, or be refused."""
        with suppress(RtAgentError):
            action()

    def flavor(self, choice: int) -> Flavor:
        """Return one of the flavors."""
        return self.flavors[choice % len(self.flavors)]

    @rule(host=HOSTS, guest=GUESTS, choice=CHOICES)
    def run_guest(self, host: int, guest: str, choice: int) -> None:
        self.attempt(lambda: self.hosts[host].run(self.flavor(choice), guest))

    @rule(host=HOSTS, guest=GUESTS)
    def release(self, host: int, guest: str) -> None:
        for claim in self.hosts[host].state.claims_of(guest)[:1]:
            self.attempt(lambda claim=claim: self.hosts[host].release(claim))  # type: ignore[misc]

    @rule(host=HOSTS, guest=GUESTS, choice=CHOICES, kind=KINDS)
    def claim_move(self, host: int, guest: str, choice: int, kind: str) -> None:
        move = MigrationFacts(uuid=uid(), migration_type=kind)

        def claim() -> None:
            self.hosts[host].claim_move(move, self.flavor(choice), guest)
            self.moves[guest] = move

        self.attempt(claim)

    @rule(host=HOSTS, guest=GUESTS, verb=VERBS)
    def move(self, host: int, guest: str, verb: str) -> None:
        if guest in self.moves:
            self.attempt(lambda: self.hosts[host].move(verb, self.moves[guest], guest))

    @rule(host=HOSTS)
    def kill(self, host: int) -> None:
        self.hosts[host].start()
