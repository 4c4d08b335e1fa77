"""CpuUse: how the CPUs of a host have spent their time."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value


class CpuUse(Value, frozen=True, kw_only=True):
    """A reading of all CPUs together.

    :ivar times: ns since the boot, by ``user``, ``kernel``, ``idle`` and ``iowait``. A time that
        the hypervisor does not report is absent.
    :ivar frequency: MHz; None: the hypervisor does not report it.
    """

    times: Mapping[str, int] = {}
    frequency: int | None = None
