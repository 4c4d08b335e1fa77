"""[compute]: the part of the hypervisor that Placement sees."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.model.base import Value

GROUP = "compute"

OPTS = [
    cfg.IntOpt(
        "resource_provider_association_refresh",
        default=300,
        min=0,
        mutable=True,
        help="""
Seconds after which what Placement has of this host is read again, in case somebody else changed
it. 0: never; it is read once and then only after a conflict.
""",
    ),
]


class Compute(Value, frozen=True, kw_only=True):
    """:ivar resource_provider_association_refresh: seconds; 0: never."""

    resource_provider_association_refresh: int
