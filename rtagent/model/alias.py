"""A name under which flavors ask for devices."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value
from rtagent.model.wanted import Wanted


class Alias(Value, frozen=True, kw_only=True):
    """:ivar alternatives: any device that is one of these will do."""

    name: str
    numa_policy: str
    alternatives: tuple[Wanted, ...]


Aliases = Mapping[str, Alias]
