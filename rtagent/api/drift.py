"""Where domains and the host differ from the claims, as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.model.host import HostState
from rtagent.views import absent, drifts


def collection(state: HostState) -> Mapping[str, Any]:
    """Shape: ``{"drift": [Drift]}``: what differs, then what is held and absent, each by owner."""
    return {"drift": (*drifts(state), *absent(state))}
