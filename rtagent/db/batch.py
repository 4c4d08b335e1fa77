"""What a sequence of changes comes to: the net effect that one transaction writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rtagent.db.devices import DeviceRows, net_devices
from rtagent.db.event import ClaimEvent, claim_event
from rtagent.db.moves import MigrationRows, net_migrations
from rtagent.db.units import UnitRows, net_units
from rtagent.errors import ChangeRejected
from rtagent.model.base import Value
from rtagent.model.change import Change, Operation
from rtagent.model.claim import Claim
from rtagent.model.holding import Holding
from rtagent.model.host import HostState

#: An operation, and when it was.
Kept = tuple[Operation, datetime]


class Batch(Value, frozen=True, kw_only=True):
    """The rows of one commit. A claim or holding that moved several times is here once, as it is
    at the end; events are all here, in their order.

    :ivar new_claims: not in the store yet. A claim that was made and ended in one batch is here,
        released. :ivar changed_claims: in the store already.
    :ivar units: what is held and was not, and the other way round. :ivar devices: and
        migrations: likewise.
    :ivar gone_holdings: domain uuids.
    :ivar ended: operations to be kept only where the store does not have the id yet.
    """

    new_claims: tuple[Claim, ...]
    changed_claims: tuple[Claim, ...]
    units: UnitRows
    devices: DeviceRows
    migrations: MigrationRows
    new_holdings: tuple[Holding, ...]
    changed_holdings: tuple[Holding, ...]
    gone_holdings: tuple[str, ...]
    operations: tuple[Kept, ...]
    ended: tuple[Kept, ...]
    events: tuple[ClaimEvent, ...]


def net(before: HostState, after: HostState, changes: Sequence[Change]) -> Batch:
    """The net effect of the changes that lead from one state to the other.

    :raises ChangeRejected: an operation id is used twice.
    """
    own, ended = _operations(changes)
    claims = {claim.uuid: claim for change in changes for claim in change.puts + change.ends}
    domains = dict.fromkeys(uuid for change in changes for uuid in _domains(change))
    return Batch(
        new_claims=tuple(c for c in claims.values() if c.uuid not in before.claims),
        changed_claims=tuple(c for c in claims.values() if c.uuid in before.claims),
        units=net_units(before, after, claims),
        devices=net_devices(before, after, changes),
        migrations=net_migrations(before, after, changes),
        new_holdings=tuple(
            after.holdings[d] for d in domains if d in after.holdings and d not in before.holdings
        ),
        changed_holdings=tuple(
            after.holdings[d] for d in domains if d in after.holdings and d in before.holdings
        ),
        gone_holdings=tuple(d for d in domains if d in before.holdings and d not in after.holdings),
        operations=tuple(own.values()),
        ended=tuple(ended.values()),
        events=tuple(claim_event(e, change) for change in changes for e in change.events),
    )


def _domains(change: Change) -> tuple[str, ...]:
    return (*change.unholdings, *(holding.domain_uuid for holding in change.holdings))


def _operations(changes: Sequence[Change]) -> tuple[dict[str, Kept], dict[str, Kept]]:
    """Operations and ended ids, as they would be kept were each change a commit of its own."""
    own: dict[str, Kept] = {}
    ended: dict[str, Kept] = {}
    for change in changes:
        for operation in change.operations:
            name = operation.operation_id
            if operation.ended:
                if name not in own:
                    ended.setdefault(name, (operation, change.at))
            elif name in own or name in ended:
                raise ChangeRejected(f"operation id {name} is used twice in one commit")
            else:
                own[name] = (operation, change.at)
    return own, ended
