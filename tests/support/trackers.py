"""Trackers on stores, and the calls that tests make most."""

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Engine

from rtagent import claims
from rtagent.claims import instance_claim, release_claim
from rtagent.db.store import SqlStore
from rtagent.lifecycle import moves
from rtagent.model.change import Call, Change
from rtagent.model.claim import Claim
from rtagent.model.node import Node, NodeRecord, Writer
from rtagent.model.node_state import HOST, NodeState, restore
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest
from rtagent.model.stored import Stored
from rtagent.ports import Clock, NullReporter, Store
from rtagent.reconcile.steps import AuditStep
from rtagent.testing.memory_store import MemoryStore
from rtagent.tracker import ResourceTracker
from tests.servers.daemon import wait_until
from tests.support.host_states import fleet_node, node_named
from tests.support.hosts import NODE, PINNED, TOPOLOGY, ManualClock, call, host, request

WRITER = Writer(machine_id="m", boot_id="b", state_path="/s")


class GatedStore:
    """A store whose every commit waits for the test.

    :ivar admission: released once for each commit that may go on.
    :ivar entered: released by each commit that has begun.
    :ivar commits: how many changes each commit carried.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.admission, self.entered = threading.Semaphore(0), threading.Semaphore(0)
        self.commits: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def commit(self, before: NodeState, after: NodeState, changes: Sequence[Change]) -> None:
        self.commits.append(len(changes))
        self.entered.release()
        assert self.admission.acquire(timeout=120)
        self.store.commit(before, after, changes)


def become_writer(store: Store, node: Node = NODE) -> Stored:
    """Become the writer, as a starting agent does: with one epoch more than the record has."""

    def rule(records: Sequence[NodeRecord]) -> NodeRecord:
        mine = [record for record in records if record.node.uuid == node.uuid]
        old = mine[0] if mine else NodeRecord(node=node, epoch=0, revision=0)
        return replace(old, node=node, epoch=old.epoch + 1, writer=WRITER)

    return store.enroll(node.uuid, node.hypervisor_hostname, rule)


def enroll(store: Store, policy: Policy | None = None, node: Node = NODE) -> NodeState:
    """Become the writer, and restore the state."""
    return restore(become_writer(store, node), policy or host().policy)


def tracker_on(
    store: Any, clock: Clock | None = None, node: Node = NODE, **options: Any
) -> ResourceTracker:
    """A tracker on a host that has been observed."""
    tracker = ResourceTracker(store, clock or ManualClock(), enroll(store, node=node), **options)
    if tracker.snapshot().topology is None:
        with tracker.observing() as base:
            tracker.apply([AuditStep(key=HOST, topology=TOPOLOGY)], base)
    return tracker


def gated_tracker(**options: Any) -> tuple[ResourceTracker, GatedStore]:
    """A tracker whose every commit waits for the test, and its store."""
    memory = MemoryStore()
    tracker_on(memory)  # observes the host
    store = GatedStore(memory)
    return tracker_on(store, **options), store


def claim(
    tracker: ResourceTracker,
    build: BuildRequest | None = None,
    asked: Call | None = None,
    **fields: Any,
) -> Claim:
    """Claim resources for a build, by default of one that `builders.request` makes."""
    return tracker.create(instance_claim, asked or call(), build or request(**fields))


def release(tracker: ResourceTracker, claim_uuid: str) -> None:
    tracker.execute(release_claim, call("release_claim"), claim_uuid)


#: The calls that answer with a new claim, and with a changed one, by the names of their rules.
CREATING = frozenset({"instance_claim", "move_claim"})
CHANGING = frozenset(
    {
        *("activate_claim", "renew_claim"),
        *("start_move_out", "finish_move", "finish_evacuation", "finish_revert"),
    }
)


def submit(tracker: ResourceTracker, verb: str, asked: Call, *arguments: Any) -> Any:
    """Make a call of a claim or of a move, by the name of its rule."""
    rule = getattr(moves, verb, None) or getattr(claims, verb)
    run = tracker.change if verb in CHANGING else tracker.execute
    return (tracker.create if verb in CREATING else run)(rule, asked, *arguments)


def stored_state(store: Any) -> NodeState:
    """The state that a restart would find."""
    return restore(store.load(NODE.uuid), host().policy)


def wait_until_queued(tracker: ResourceTracker, number: int) -> None:
    """Wait until that many decisions are queued behind the commit that is under way."""
    wait_until(lambda: tracker.waiting == number, pause=0.005)


class Reports(NullReporter):
    """:ivar parts: status and output by part. :ivar logged: level and sentence, in order.
    :ivar healths: part, status and output, in order. :ivar counts: by name and label.
    """

    def __init__(self) -> None:
        self.parts: dict[str, tuple[str, str]] = {}
        self.healths: list[tuple[str, str, str]] = []
        self.logged: list[tuple[str, str]] = []
        self.counts = Counter[tuple[str, str]]()

    def counted(self, name: str, label: str, number: int = 1) -> None:
        self.counts[name, label] += number

    def health(self, part: str, status: str, output: str = "") -> None:
        self.parts[part] = status, output
        self.healths.append((part, status, output))

    @property
    def texts(self) -> dict[str, str]:
        """Status and output by part, as one text."""
        return {part: ": ".join(filter(None, health)) for part, health in self.parts.items()}

    def log(self, level: str, sentence: str) -> None:
        self.logged.append((level, sentence))


def started(engine: Engine, name: str = "cn1", number: int = 4) -> ResourceTracker:
    """Return the tracker of a node with guests, with its policy and its devices in the database."""
    store, wanted = SqlStore(engine), fleet_node()
    tracker = ResourceTracker(store, ManualClock(), enroll(store, wanted.policy, node_named(name)))
    with tracker.observing() as base:
        tracker.apply(
            [
                AuditStep(key=HOST, topology=wanted.topology),
                *(AuditStep(key=f"device:{a}", device=d) for a, d in wanted.devices.items()),
            ],
            base,
        )
    for index in range(number):
        specs = PINNED if index % 2 else {"hw:mem_page_size": "2MB"}
        claim(tracker, request(2, 64, 1, extra_specs=specs, instance={"vm_state": "active"}))
    return tracker
