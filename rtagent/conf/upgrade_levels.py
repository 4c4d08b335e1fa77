"""[upgrade_levels]: the RPC versions to send while hosts of two releases work together."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.model.base import Value

GROUP = "upgrade_levels"

OPTS = [
    cfg.StrOpt(
        "rtagent",
        regex=r"^\d+\.\d+$",
        help="""
The highest version of the agent's RPC API that clients may send, for example ``1.0``. Unset: the
newest version that the client has.
""",
    ),
    cfg.StrOpt(
        "scheduler",
        regex=r"^\d+\.\d+$",
        help="""
The highest version of the schedulers' RPC API that clients may send, for example ``1.0``. Unset:
the newest version that the client has.
""",
    ),
]


class UpgradeLevels(Value, frozen=True, kw_only=True):
    """:ivar rtagent: a version such as ``1.0``, or None. :ivar scheduler: likewise."""

    rtagent: str | None
    scheduler: str | None
