"""Metric: a measurement of a compute monitor, and its documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from rtagent.model.base import Document, Name


class Metric(Document, frozen=True, kw_only=True):
    """A measurement of a compute monitor (Nova's MonitorMetric).

    :ivar value: times in ns since the boot, frequencies in MHz, percentages as a fraction of 1.
    """

    name: Name
    value: float
    timestamp: datetime
    source: Name = ""


def documents(metrics: Sequence[Metric]) -> list[dict[str, Any]]:
    """Return the field ``metrics`` of Nova's ComputeNode: ``[{"name", "value", "timestamp",
    "source"}]``.
    """
    return [msgspec.to_builtins(metric) for metric in metrics]
