"""JSON view of drains: what remains on the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rtagent.model.claim import Claim
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.node_state import NodeState
from rtagent.reconcile.drift import orphans


def drains(state: NodeState) -> Mapping[str, Any]:
    """``{"drains": [{"node", "drain", "claims", "orphans"}]}``; an agent serves one node. ``drain``
    is null, or has ``since``, ``reason``, ``deadline`` and ``actor``; ``claims`` and ``orphans``
    are what remains on the node.
    """
    return {"drains": [_document(state)]}


def _document(state: NodeState) -> dict[str, Any]:
    claims = sorted(state.claims.values(), key=lambda claim: (claim.created_at, claim.uuid))
    return {
        "node": state.node.hypervisor_hostname,
        "drain": None if state.drain is None else msgspec.to_builtins(state.drain),
        "claims": [_claim(each) for each in claims],
        "orphans": [_orphan(each) for each in orphans(state)],
    }


def _claim(claim: Claim) -> dict[str, Any]:
    names = ("uuid", "owner_id", "kind", "state", "suspect", "vcpus", "memory_mb")
    fields = {name: getattr(claim, name) for name in names}
    return {**fields, "display_name": claim.instance.display_name}


def _orphan(usage: DomainUsage) -> dict[str, Any]:
    names = ("domain_uuid", "name", "active", "vcpus", "memory_mb")
    return {name: getattr(usage, name) for name in names}
