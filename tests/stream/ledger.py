"""Ledger: what the callers were told, and what they are still waiting to be told."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from msgspec.structs import replace

from rtagent.model.base import Value
from tests.stream.deed import MB_IN_GB, Deed


class Told(Value, frozen=True, kw_only=True):
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

    def after(self, action: str, state: str | None) -> "Told":
        """One step on."""
        return replace(self, actions=(*self.actions, action), state=state or self.state)


@dataclass
class Book:
    """A node as it must be.

    :ivar claims: all that were ever granted, by uuid. :ivar operations: that had an effect.
    :ivar ended: operation ids that were refused for ever before they were seen.
    :ivar domains: (vcpus, memory_mb) of running domains without a claim, by uuid.
    :ivar doubtful: creating calls that were refused: an earlier attempt of the same call that went
        unanswered may be granted yet, until the call is aborted. A claim of theirs may be there.
    """

    claims: dict[str, Told] = field(default_factory=dict)
    operations: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    domains: dict[str, tuple[int, int]] = field(default_factory=dict)
    failed_builds: int = 0
    reserved_memory_mb: int = 0

    def copy(self) -> "Book":
        return Book(
            claims=dict(self.claims),
            operations=set(self.operations),
            ended=set(self.ended),
            doubtful=set(self.doubtful),
            domains=dict(self.domains),
            failed_builds=self.failed_builds,
            reserved_memory_mb=self.reserved_memory_mb,
        )

    def forget(self) -> None:
        """What has ended, and which operations there were."""
        self.claims = self.live
        self.operations, self.ended, self.doubtful = set(), set(), set()

    @property
    def live(self) -> dict[str, Told]:
        return {uuid: told for uuid, told in self.claims.items() if told.live}

    def enter(self, deed: Deed) -> None:
        """The deed was done."""
        self.operations.add(deed.operation_id)
        if deed.method == "build_failed":
            self.failed_builds += 1
        elif deed.method == "instance_claim":
            self.claims[deed.claim_uuid] = granted(deed)
        elif deed.claim_uuid in self.claims:
            self.move(deed.claim_uuid, *deed.effect)
        else:
            self.ended.add(deed.claim_uuid)

    def move(self, claim_uuid: str, action: str, state: str | None = None) -> None:
        """A step in a claim's life."""
        self.claims[claim_uuid] = self.claims[claim_uuid].after(action, state)


def granted(deed: Deed) -> Told:
    """The claim that a build is answered with."""
    instance = deed.document["instance"]
    flavor = instance["flavor"]
    return Told(
        uuid=deed.operation_id,
        owner_id=instance["uuid"],
        state="building",
        vcpus=flavor["vcpus"],
        memory_mb=flavor["memory_mb"],
        disk_mb=flavor["root_gb"] * MB_IN_GB,
        actions=("create",),
    )


class Ledger:
    """Thread-safe. As a context manager it stands still, so that it can be compared with the
    database: what is durable by then is what was told and what is pending."""

    def __init__(self) -> None:
        self.book = Book()
        self.pending: dict[str, Deed] = {}
        self.answers = 0
        self._lock = threading.RLock()

    def begin(self, deed: Deed) -> None:
        """It is about to be asked for."""
        with self._lock:
            self.pending[deed.operation_id] = deed

    def done(self, deed: Deed) -> None:
        """It was answered."""
        with self._lock:
            del self.pending[deed.operation_id]
            self.book.enter(deed)
            self.answers += 1

    def refused(self, deed: Deed) -> None:
        """It was answered with an error, for good."""
        with self._lock:
            del self.pending[deed.operation_id]
            if deed.method == "instance_claim":
                self.book.doubtful.add(deed.claim_uuid)
            self.answers += 1

    def told(self, claim_uuid: str) -> Told:
        with self._lock:
            return self.book.claims[claim_uuid]

    def expected(self, operations: Iterable[str]) -> Book:
        """As it must be, given the operations that the database has: what is pending is done, or
        it is not."""
        with self._lock:
            book = self.book.copy()
            for operation_id in self.pending.keys() & set(operations):
                book.enter(self.pending[operation_id])
            return book

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(self, *_: Any) -> None:
        self._lock.release()
