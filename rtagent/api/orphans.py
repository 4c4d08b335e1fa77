"""Domains that no claim accounts for, as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.model.host import HostState
from rtagent.views import orphans


def collection(state: HostState) -> Mapping[str, Any]:
    """Shape: ``{"orphans": [Holding]}``, by name."""
    return {"orphans": orphans(state)}
