"""JSON views of claims, migrations, orphans, drift and drains."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rtagent.api.reply import a_uuid, check, one_of
from rtagent.errors import ClaimNotFound
from rtagent.model.claim import LIVE_STATES
from rtagent.model.migration import STATUSES
from rtagent.model.node_state import NodeState
from rtagent.pci.pmem import with_namespaces
from rtagent.reconcile import drift as differences

#: The filters of `claims`, and of `migrations`.
CLAIM_FILTERS = frozenset({"instance", "state"})
MIGRATION_FILTERS = frozenset({"instance", "status"})


def claims(state: NodeState, filters: Mapping[str, str]) -> Mapping[str, Any]:
    """``{"claims": [Claim]}``: the live claims, oldest first.

    :param filters: ``instance`` (an owner's uuid) and ``state``; all that are given must match.
    :raises InvalidRequest: no live claim can have such a value.
    """
    check("claims", filters, {"instance": a_uuid, "state": one_of(sorted(LIVE_STATES))})
    wanted, owner = filters.get("state"), filters.get("instance")
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
    :raises InvalidRequest: no record has such a value. A caller chooses the first status, so that
        of a record is valid whatever it is.
    """
    recorded = {each.status for each in state.migrations.values()}
    rules = {"instance": a_uuid, "status": one_of(sorted(recorded.union(STATUSES)))}
    check("migrations", filters, rules)
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


def drains(state: NodeState) -> Mapping[str, Any]:
    """``{"drains": [{"node", "drain", "claims", "orphans"}]}``; an agent serves one node. ``drain``
    is null, or has ``since``, ``reason``, ``deadline`` and ``actor``; ``claims`` and ``orphans``
    are what remains on the node.
    """
    of_claim = ("uuid", "owner_id", "kind", "state", "suspect", "vcpus", "memory_mb")
    of_orphan = ("domain_uuid", "name", "active", "vcpus", "memory_mb")
    drain = {
        "node": state.node.hypervisor_hostname,
        "drain": None if state.drain is None else msgspec.to_builtins(state.drain),
        "claims": [
            {**_fields(claim, of_claim), "display_name": claim.instance.display_name}
            for claim in claims(state, {})["claims"]
        ],
        "orphans": [_fields(usage, of_orphan) for usage in differences.orphans(state)],
    }
    return {"drains": [drain]}


def _fields(value: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}
