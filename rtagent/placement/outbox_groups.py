"""What has to be written, and what is written together: consumers of one guest, and many guests in
a backlog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from msgspec.structs import asdict

from rtagent.model.base import Value
from rtagent.model.claim import BUILD
from rtagent.model.consumers import (
    MIGRATION,
    Consumer,
    OutboxRow,
    Parts,
    consumers_of,
    own_providers,
    owner_of,
)
from rtagent.model.node_state import NodeState
from rtagent.placement.client import HttpPlacement
from rtagent.placement.consumers import Group, WantedConsumer, read_consumers, tree_providers

#: From this number of guests on, several are written in one request. Then their requests have no
#: request id of a caller.
BACKLOG = 16
#: How many guests are written in one request.
BATCH = 32


class GroupBatch(Value, frozen=True, kw_only=True):
    """:ivar rows: that the groups cover, at the revisions that they have.
    :ivar request_id: of the call that caused the write; "": several did, or none.
    """

    rows: tuple[OutboxRow, ...]
    groups: tuple[Group, ...]
    own: NodeProviders
    request_id: str


def is_known(state: NodeState, consumer_uuid: str) -> bool:
    """Whether it is known what a consumer has. It is not if the row of a claim is damaged, or is
    missing: the guest may still have what no claim says.
    """
    claims = state.claims_of(owner_of(state, consumer_uuid))
    if state.unknown and not claims:
        return False
    return not any(claim.quarantined for claim in claims)


def batches(
    state: Callable[[], NodeState], owns: Callable[[str], bool], due: Sequence[OutboxRow]
) -> Iterator[GroupBatch]:
    """Yield what to write, in the order of the rows. Each batch is computed from the state of the
    moment when it is needed.

    :param owns: whether this agent has made a provider, see `OutboxSource`.
    :param due: the rows to write, in order.
    """
    now = state()
    consumers: dict[str, list[str]] = {}
    for row in due:
        consumers.setdefault(owner_of(now, row.consumer_uuid), []).append(row.consumer_uuid)
    size = BATCH if len(consumers) >= BACKLOG else 1
    rest = iter(consumers.items())
    while part := dict(islice(rest, size)):
        yield _batch(state(), owns, part)


def _batch(
    state: NodeState, owns: Callable[[str], bool], consumers: dict[str, list[str]]
) -> GroupBatch:
    rows: list[OutboxRow] = []
    groups: list[Group] = []
    for owner, uuids in consumers.items():
        wanted = consumers_of(state, owner)
        # Rows of the same guest that came meanwhile are written with them.
        together = dict.fromkeys((*uuids, owner, *wanted))
        found = [state.outbox[uuid] for uuid in together if uuid in state.outbox]
        if found:
            rows += found
            groups.append([_wanted(state, row, owner, wanted) for row in found])
    callers = {row.request_id for row in rows}
    return GroupBatch(
        rows=tuple(rows),
        groups=tuple(groups),
        own=NodeProviders(state, owns),
        request_id=callers.pop() if len(callers) == 1 else "",
    )


def _wanted(
    state: NodeState, row: OutboxRow, owner: str, wanted: Mapping[str, Consumer]
) -> WantedConsumer:
    consumer = wanted.get(row.consumer_uuid)
    if consumer is None:
        return WantedConsumer(uuid=row.consumer_uuid)
    claims = state.claims_of(owner)
    built = len(claims) == 1 and claims[0].kind == BUILD
    since_start = row.revision > state.floor  # else an earlier process may have written it
    is_new = since_start and (built or consumer.consumer_type == MIGRATION)
    return WantedConsumer(**asdict(consumer), is_new=is_new)


class NodeProviders:
    """`OwnProviders` of a state, computed when the first one is looked for: a new consumer
    needs none. The provider of a device that went with its claim is only in `owns`.
    """

    def __init__(self, state: NodeState, owns: Callable[[str], bool]) -> None:
        self._state, self._owns = state, owns

    @property
    def shared_disk(self) -> str | None:
        return self._state.policy.placement.disk_provider

    def __contains__(self, uuid: object) -> bool:
        if uuid == self._state.node.uuid or uuid in self._all:
            return True
        return isinstance(uuid, str) and self._owns(uuid)

    @cached_property
    def _all(self) -> frozenset[str]:
        return own_providers(self._state)


def differing_consumers(api: HttpPlacement, state: NodeState) -> Sequence[str]:
    """Return the consumers of claims whose allocations in Placement differ, are missing, or should
    not be there.

    An owner with a quarantined claim is left out: it is not known what the claim has.

    :raises PlacementError: Placement cannot be read.
    """
    own = own_providers(state)
    consumers = read_consumers(api, tree_providers(api, state.node.uuid) & own)
    found = {uuid: consumer.parts for uuid, consumer in consumers.items()}
    return sorted(
        uuid
        for owner in state.owners
        for uuid, parts in _wanted_parts(state, owner).items()
        if {name: part for name, part in parts.items() if name in own} != found.get(uuid, {})
    )


def _wanted_parts(state: NodeState, owner: str) -> Mapping[str, Parts]:
    """Return what an owner's consumers should have, by uuid.

    A migration may have nothing here, but may have had: its guest has arrived, or shares what it
    had with its new claim since a reload.
    """
    claims = state.claims_of(owner)
    if any(claim.quarantined for claim in claims):
        return {}
    moves = (claim.migration_uuid for claim in claims)
    wanted: dict[str, Parts] = {uuid: {} for uuid in moves if uuid}
    return wanted | {uuid: each.parts for uuid, each in consumers_of(state, owner).items()}
