"""Measurements of compute monitors, their documents, and the use of CPUs that they come from."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from rtagent.model.base import Document, Name, Value


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


class CpuUse(Value, frozen=True, kw_only=True):
    """A reading of all CPUs together.

    :ivar times: ns since the boot, by ``user``, ``kernel``, ``idle`` and ``iowait``. A time that
        the hypervisor does not report is absent.
    :ivar frequency: MHz; None: the hypervisor does not report it.
    """

    times: Mapping[str, int] = {}
    frequency: int | None = None
