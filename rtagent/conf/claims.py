"""[claims]: how long a claim waits for its guest, how long the past is kept, how moves count."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.model.base import Value

GROUP = "claims"

OPTS = [
    cfg.IntOpt(
        "claim_expiry_time",
        default=300,
        min=10,
        mutable=True,
        help="""
The lease of a claim that is being built, in seconds. A caller that needs longer renews it. After
it, the claim ends as soon as an audit has seen that no guest runs on it.
""",
    ),
    cfg.IntOpt(
        "operation_retention",
        default=86400,
        min=20,
        mutable=True,
        help="""
Seconds for which the outcome of a call is kept, so that a repeat under the same operation id is
answered and not done twice; at least twice ``claim_expiry_time``. Released claims, and migrations
that have ended, are kept as long.
""",
    ),
    cfg.BoolOpt(
        "same_host_resize_reuse",
        default=False,
        mutable=True,
        help="""
While an instance is resized on its own host it has two claims. False: both are counted in full.
True: of each resource the larger of the two is counted, and both may be pinned to the same CPUs,
since only one of the two guests ever runs: a resize then fits a host that is nearly full. (Devices
that the instance has are its new claim's in either case.)
""",
    ),
]


class Claims(Value, frozen=True, kw_only=True):
    """:ivar claim_expiry_time: seconds. :ivar operation_retention: seconds."""

    claim_expiry_time: int
    operation_retention: int
    same_host_resize_reuse: bool
