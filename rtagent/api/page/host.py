"""The frame of an agent's pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.model.node_state import NodeState

OUTDATED = "The database cannot be reached. This is the last known state; it may be out of date."


def host_frame(state: NodeState, stale: bool) -> Mapping[str, Any]:
    """Return the variables of ``base.html``.

    ``place``: the name of the host. ``stamp``: the version of the data. ``notices``: sentences that
    every page shows.
    """
    return {
        "place": state.node.hypervisor_hostname,
        "stamp": f"revision {state.revision}",
        "notices": (OUTDATED,) if stale else (),
    }
