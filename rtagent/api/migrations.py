"""Moves, as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.model.host import HostState

FILTERS = frozenset({"instance", "status"})


def collection(state: HostState, filters: Mapping[str, str]) -> Mapping[str, Any]:
    """Shape: ``{"migrations": [Migration]}``, oldest first: this node's side of each.

    :param filters: ``instance`` (its uuid) and ``status``; all of those given must match.
    """
    instance, status = filters.get("instance"), filters.get("status")
    chosen = [
        each
        for each in state.migrations.values()
        if instance in (None, each.instance_uuid) and status in (None, each.status)
    ]
    return {"migrations": sorted(chosen, key=lambda each: (each.created_at, each.uuid))}
