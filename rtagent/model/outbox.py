"""The outbox: consumers whose allocations have to be written to Placement. Pure.

A row says that a consumer's allocations have changed, and since which revision. What they should be
is computed from the state when they are written, so a row never becomes outdated, and writing it
twice is harmless.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Protocol

from immutables import Map

from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.claim import Claim
from rtagent.model.consumers import NodeClaims, consumers_of
from rtagent.model.policy import ManageAllocations


class OutboxRow(Value, frozen=True, kw_only=True):
    """A consumer whose allocations have to be written.

    :ivar revision: of the node, at which they changed. :ivar at: the time of that change.
    :ivar request_id: the global request id of the call that changed them, or "".
    """

    consumer_uuid: str
    revision: int
    request_id: str
    at: datetime


Outbox = Map[str, OutboxRow]


class NodeOutbox(NodeClaims, Protocol):
    """The parts of a `NodeState` that determine its outbox."""

    @property
    def outbox(self) -> Outbox: ...

    @property
    def revision(self) -> int: ...


def outbox_after(before: NodeOutbox, after: NodeOutbox, change: Change) -> Outbox:
    """Return the outbox after a change. :param after: has everything but its outbox."""
    if after.policy.placement.manage_allocations == ManageAllocations.NO:
        return Map() if change.policy is not None else before.outbox
    unwritten = (*changed_consumers(before, after, change.owners), *change.unwritten)
    if not unwritten and not change.written:
        return before.outbox
    outbox = before.outbox.mutate()
    for uuid in change.written:
        outbox.pop(uuid, None)
    for uuid in unwritten:
        outbox[uuid] = OutboxRow(
            consumer_uuid=uuid, revision=after.revision, request_id=change.request_id, at=change.at
        )
    return outbox.finish()


def changed_consumers(
    before: NodeClaims, after: NodeClaims, owners: Iterable[str]
) -> Iterator[str]:
    """Yield the consumers of these owners whose allocations differ between two states."""
    for owner in owners:
        had, have = consumers_of(before, owner), consumers_of(after, owner)
        for uuid in {*had, *have}:
            if had.get(uuid) != have.get(uuid):
                yield uuid


def concerned_consumers(
    before: NodeClaims, after: NodeClaims, changes: Sequence[Change]
) -> frozenset[str]:
    """Return the consumers that `outbox_after` may add or remove for changes that lead from one
    state to the other and have no policy.
    """
    return frozenset(
        uuid
        for change in changes
        for uuid in (
            *change.owners,
            *change.written,
            *change.unwritten,
            *(claim.migration_uuid for claim in _claims(before, after, change)),
        )
        if uuid is not None
    )


def _claims(before: NodeClaims, after: NodeClaims, change: Change) -> Iterator[Claim]:
    """Yield every claim of the owners: the end of one claim changes the consumers of others, too.

    A claim that was made and ended between the two states is only in the change.
    """
    yield from change.puts
    yield from change.ends
    for owner in change.owners:
        yield from before.claims_of(owner)
        yield from after.claims_of(owner)
