"""JSON views of claims, migrations, orphans and drift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.errors import ClaimNotFound, InvalidRequest
from rtagent.model.claim import LIVE_STATES
from rtagent.model.node_state import NodeState
from rtagent.pci.pmem import with_namespaces
from rtagent.reconcile import drift as differences

#: The filters of `claims`, and of `migrations`.
CLAIM_FILTERS = frozenset({"instance", "state"})
MIGRATION_FILTERS = frozenset({"instance", "status"})


def claims(state: NodeState, filters: Mapping[str, str]) -> Mapping[str, Any]:
    """``{"claims": [Claim]}``: the live claims, oldest first.

    :param filters: ``instance`` (an owner's uuid) and ``state``; all that are given must match.
    :raises InvalidRequest: no live claim can have that state.
    """
    wanted = filters.get("state")
    if wanted is not None and wanted not in LIVE_STATES:
        raise InvalidRequest(
            method="GET /claims",
            errors=[{"path": "state", "message": f"not one of {', '.join(sorted(LIVE_STATES))}"}],
        )
    owner = filters.get("instance")
    found = state.claims.values() if owner is None else state.claims_of(owner)
    matching = (with_namespaces(each, state) for each in found if wanted in (None, each.state))
    return {"claims": sorted(matching, key=lambda each: (each.created_at, each.uuid))}


def claim(state: NodeState, uuid: str) -> Mapping[str, Any]:
    """``{"claim": Claim}``.

    :raises ClaimNotFound: no live claim has that uuid.
    """
    found = state.claims.get(uuid)
    if found is None:
        raise ClaimNotFound(claim_uuid=uuid)
    return {"claim": with_namespaces(found, state)}


def migrations(state: NodeState, filters: Mapping[str, str]) -> Mapping[str, Any]:
    """``{"migrations": [Migration]}``: this node's record of each move, oldest first.

    :param filters: ``instance`` (its uuid) and ``status``; all that are given must match.
    """
    instance, status = filters.get("instance"), filters.get("status")
    matching = [
        each
        for each in state.migrations.values()
        if instance in (None, each.instance_uuid) and status in (None, each.status)
    ]
    return {"migrations": sorted(matching, key=lambda each: (each.created_at, each.uuid))}


def orphans(state: NodeState) -> Mapping[str, Any]:
    """``{"orphans": [DomainUsage]}``: domains that no claim accounts for, by name."""
    return {"orphans": differences.orphans(state)}


def drift(state: NodeState) -> Mapping[str, Any]:
    """``{"drift": [Drift]}``: where domains differ from their claims, then claimed units that are
    absent from the host; each by owner."""
    return {"drift": (*differences.drifts(state), *differences.absent(state))}
