"""Ledger: the operations of callers, the answers, and the operations that have no answer yet."""

import random
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import UUID

from msgspec.structs import replace

from rtagent.model.base import Value
from tests.support.hosts import copied

MB_IN_GB = 1024

#: The action that each method writes into a claim's history, and the claim's next state (None:
#: unchanged).
EFFECTS: Mapping[str, tuple[str, str | None]] = {
    "instance_claim": ("create", "building"),
    "activate_claim": ("activate", "active"),
    "renew_claim": ("renew", None),
    "update_usage": ("update", None),
    "abort_instance_claim": ("abort", "released"),
    "release_claim": ("release", "released"),
}


class Operation(Value, frozen=True, kw_only=True):
    """One call.

    :ivar document: its arguments.
    :ivar claim_uuid: the claim that it changes, or "".
    :ivar ends: it releases the claim although its method is not a release.
    """

    method: str
    document: Mapping[str, Any]
    claim_uuid: str = ""
    ends: bool = False

    @property
    def operation_id(self) -> str:
        return str(self.document["operation_id"])

    @property
    def cause(self) -> str:
        """The cause of its commit, which failpoints name."""
        return self.method

    @property
    def effect(self) -> tuple[str, str | None]:
        """The action in the claim's history, and the claim's next state."""
        return ("release", "released") if self.ends else EFFECTS[self.method]


class OperationFactory:
    """Makes operations, the same ones for the same seed."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def uuid(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))

    def claim(self, owner: str = "", *, vcpus: int = 1, memory_mb: int = 64) -> Operation:
        """Make a build; the claim's uuid is the operation's id."""
        operation_id = self.uuid()
        flavor = {"vcpus": vcpus, "memory_mb": memory_mb, "root_gb": 1}
        instance = {"uuid": owner or self.uuid(), "flavor": flavor}
        return Operation(
            method="instance_claim",
            document={"operation_id": operation_id, "instance": instance},
            claim_uuid=operation_id,
        )

    def step(self, method: str, claim_uuid: str) -> Operation:
        """Make a call of a method that takes a claim's uuid, such as ``activate_claim``."""
        document = {"operation_id": self.uuid(), "claim_uuid": claim_uuid}
        return Operation(method=method, document=document, claim_uuid=claim_uuid)

    def abort_unknown(self) -> Operation:
        """Make an abort of an id that was never used."""
        return self.step("abort_instance_claim", self.uuid())

    def update(self, claim_uuid: str, owner: str, vm_state: str) -> Operation:
        """Make an ``update_usage``."""
        instance = {"uuid": owner, "vm_state": vm_state}
        return Operation(
            method="update_usage",
            document={"operation_id": self.uuid(), "instance": instance},
            claim_uuid=claim_uuid,
            ends=vm_state == "deleted",
        )

    def build_failed(self) -> Operation:
        return Operation(method="build_failed", document={"operation_id": self.uuid()})


class KnownClaim(Value, frozen=True, kw_only=True):
    """A claim as its caller knows it. :ivar actions: its history, the oldest first."""

    uuid: str
    owner_id: str
    state: str
    vcpus: int
    memory_mb: int
    disk_mb: int
    actions: tuple[str, ...]

    @property
    def live(self) -> bool:
        return self.state != "released"

    def after(self, action: str, state: str | None) -> "KnownClaim":
        """Return the claim after one more action."""
        return replace(self, actions=(*self.actions, action), state=state or self.state)


@dataclass
class ExpectedState:
    """The state that a node must have.

    :ivar claims: all that were ever granted, by uuid. :ivar operations: ids of those that had an
        effect.
    :ivar ended: operation ids that were recorded as ended before they were used.
    :ivar domains: (vcpus, memory_mb) of running domains without a claim, by uuid.
    :ivar doubtful: refused creating calls. An earlier, unanswered attempt of the same call may
        still be granted until the call is aborted. The database may have that claim.
    """

    claims: dict[str, KnownClaim] = field(default_factory=dict)
    operations: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    domains: dict[str, tuple[int, int]] = field(default_factory=dict)
    failed_builds: int = 0
    reserved_memory_mb: int = 0

    def purge(self) -> None:
        """Remove ended claims and all operations, as a purge does."""
        self.claims = self.live
        self.operations, self.ended, self.doubtful = set(), set(), set()

    @property
    def live(self) -> dict[str, KnownClaim]:
        return {uuid: claim for uuid, claim in self.claims.items() if claim.live}

    def enter(self, operation: Operation) -> None:
        """Add an operation that was answered with success."""
        self.operations.add(operation.operation_id)
        if operation.method == "build_failed":
            self.failed_builds += 1
        elif operation.method == "instance_claim":
            self.claims[operation.claim_uuid] = granted(operation)
        elif operation.claim_uuid in self.claims:
            self.transition(operation.claim_uuid, *operation.effect)
        else:
            self.ended.add(operation.claim_uuid)

    def transition(self, claim_uuid: str, action: str, state: str | None = None) -> None:
        """Add an action to a claim's history."""
        self.claims[claim_uuid] = self.claims[claim_uuid].after(action, state)


def granted(operation: Operation) -> KnownClaim:
    """Return the claim that answers a build."""
    instance = operation.document["instance"]
    flavor = instance["flavor"]
    return KnownClaim(
        uuid=operation.operation_id,
        owner_id=instance["uuid"],
        state="building",
        vcpus=flavor["vcpus"],
        memory_mb=flavor["memory_mb"],
        disk_mb=flavor["root_gb"] * MB_IN_GB,
        actions=("create",),
    )


class Ledger:
    """Record of the callers; thread-safe.

    As a context manager it is locked, so that it can be compared with the database: everything
    durable by then was answered or is pending.
    """

    def __init__(self) -> None:
        self.state = ExpectedState()
        self.pending: dict[str, Operation] = {}
        self.answers = 0
        self._lock = threading.RLock()

    def begin(self, operation: Operation) -> None:
        """Add an operation that is about to be called."""
        with self._lock:
            self.pending[operation.operation_id] = operation

    def done(self, operation: Operation) -> None:
        """An operation was answered with success."""
        with self._lock:
            del self.pending[operation.operation_id]
            self.state.enter(operation)
            self.answers += 1

    def refused(self, operation: Operation) -> None:
        """An operation was answered with a definite error."""
        with self._lock:
            del self.pending[operation.operation_id]
            if operation.method == "instance_claim":
                self.state.doubtful.add(operation.claim_uuid)
            self.answers += 1

    def claim(self, claim_uuid: str) -> KnownClaim:
        with self._lock:
            return self.state.claims[claim_uuid]

    def expected(self, operations: Iterable[str]) -> ExpectedState:
        """Return the expected state; a pending operation counts if the database has it."""
        with self._lock:
            expected = copied(self.state)
            for operation_id in self.pending.keys() & set(operations):
                expected.enter(self.pending[operation_id])
            return expected

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(self, *_: Any) -> None:
        self._lock.release()
