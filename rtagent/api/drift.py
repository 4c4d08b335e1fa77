"""Where domains differ from their claims, as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.model.host import HostState
from rtagent.model.views import drifts


def collection(state: HostState) -> Mapping[str, Any]:
    """Shape: ``{"drift": [Drift]}``, by owner."""
    return {"drift": drifts(state)}
