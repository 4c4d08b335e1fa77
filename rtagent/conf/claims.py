"""[claims]: how long a claim waits for its guest, and how long the past is kept."""

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
answered and not done twice; at least twice ``claim_expiry_time``. Released claims are kept as long.
""",
    ),
]


class Claims(Value, frozen=True, kw_only=True):
    """Seconds, both."""

    claim_expiry_time: int
    operation_retention: int
