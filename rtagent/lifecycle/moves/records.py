"""Records of moves: how they are made, and when they are purged."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from rtagent.errors import ClaimConflict
from rtagent.model.change import Change
from rtagent.model.migration import ENDED, Migration, MigrationFacts
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState


def new_record(
    node: Node,
    owner_id: str,
    facts: MigrationFacts,
    status: str,
    role: str,
    claim_uuid: str | None,
    now: datetime,
) -> Migration:
    """Make a node's record of a move from what the caller says about it."""
    known = {name: getattr(facts, name) for name in MigrationFacts.__struct_fields__}
    return Migration(
        **{
            **known,
            "node_uuid": node.uuid,
            "role": role,
            "instance_uuid": owner_id,
            "claim_uuid": claim_uuid,
            "status": status,
            "created_at": now,
            "updated_at": now,
        }
    )


def check_same_move(record: Migration | None, owner_id: str, facts: MigrationFacts) -> None:
    """Check that a node's record is of the move that the caller describes, if there is one.

    :raises ClaimConflict: the migration is another instance's, or of another type.
    """
    same = (owner_id, facts.migration_type)
    if record is not None and (record.instance_uuid, record.migration_type) != same:
        raise ClaimConflict(
            f"migration {record.uuid} is the {record.migration_type} of instance"
            f" {record.instance_uuid}",
            migration_uuid=record.uuid,
        )


def ended(state: NodeState) -> dict[str, datetime]:
    """Return ``updated_at`` of the records of ended moves, by uuid.

    The record of a move that a live claim takes part in is not included.
    """
    return {u: record.updated_at for u, record in state.migrations.items() if _past(state, record)}


def purge(state: NodeState, expired: Collection[str], now: datetime) -> Change | None:
    """Remove the expired records of ended moves; None: there are none.

    Records are kept as long as operations are. A repeated call of the move, under whatever
    operation id, finds in the record what it did. Without the record, a second confirmation could
    release the claim of an instance that has come back since.
    """
    old = tuple(uuid for uuid in ended(state) if uuid in expired)
    return Change(cause="purge", at=now, migration_removals=old) if old else None


def _past(state: NodeState, record: Migration) -> bool:
    claims = state.claims_of(record.instance_uuid)
    if any(claim.migration_uuid == record.uuid for claim in claims):
        return False
    return record.status in ENDED or record.claim_uuid not in state.claims
