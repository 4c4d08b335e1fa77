"""[rpc]: who may call agents and schedulers, and how their own calls are signed."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg, types

from rtagent.conf.types import Items
from rtagent.model.base import Value

GROUP = "rpc"

#: What a caller may be. `rtagent.rpc.roles` says what each one may do.
ROLES = ("reader", "conductor", "scheduler", "agent", "operator")
#: The roles of callers that do not sign and whose context says no role.
UNSIGNED = ROLES[:-1]

OPTS = [
    cfg.StrOpt(
        "keys_file",
        mutable=True,
        help="""
The file with the public keys of all callers, a JSON Web Key Set, and with the roles of each one.
``rtagent key generate`` adds a key, ``rtagent key revoke`` removes one, and SIGHUP reads the file
again. Unset: no signature is accepted.
""",
    ),
    cfg.StrOpt(
        "signing_key",
        mutable=True,
        help="""
The JSON Web Key with which this program signs its calls and its replies, as ``rtagent key
generate`` writes it. Other users must not be able to read the file. Unset: calls are not signed.
""",
    ),
    cfg.FloatOpt(
        "signature_window",
        default=60.0,
        min=1.0,
        max=3600.0,
        mutable=True,
        help="""
The largest difference between the time at which a call was signed and the clock of the server
that receives it, in seconds, from 1 to 3600, and at most half of ``[claims] operation_retention``.
An older or newer signature is refused.
""",
    ),
    cfg.BoolOpt(
        "require_signature",
        default=False,
        mutable=True,
        help="""
Whether every call needs a signature. It requires ``keys_file``. If false, a call without a
signature has the roles that its context says, or ``unsigned_roles``. A wrong signature is always
refused. The method ``ping`` never needs one.
""",
    ),
    cfg.BoolOpt(
        "verify_replies",
        default=False,
        mutable=True,
        help="""
Whether the calls of this program need signed replies, so that no other user of the message broker
can answer in place of an agent or a scheduler. It requires ``keys_file`` here, with the keys of
all agents and schedulers, and ``signing_key`` at each of them.
""",
    ),
    cfg.Opt(
        "unsigned_roles",
        default=list(UNSIGNED),
        type=Items(types.String(choices=ROLES)),
        mutable=True,
        help="""
The roles of a call that has no signature and whose context says none of these roles: ``reader``,
``conductor``, ``scheduler``, ``agent``, ``operator``. Without effect if ``require_signature`` is
true.
""",
    ),
    cfg.IntOpt(
        "max_calls_per_caller",
        default=32,
        min=1,
        mutable=True,
        help="""
The number of calls of one caller that a server serves at the same time; at least 1. Further calls
get the error TooManyRequests.
""",
    ),
    cfg.FloatOpt(
        "max_call_rate",
        default=0.0,
        min=0.0,
        mutable=True,
        help="""
The number of calls per second that a server accepts from one caller; 0: no limit. Further calls
get the error TooManyRequests.
""",
    ),
]


class Rpc(Value, frozen=True, kw_only=True):
    """One field for each option. :ivar keys_file: a path, or None. :ivar signing_key: likewise."""

    keys_file: str | None = None
    signing_key: str | None = None
    signature_window: float = 60.0
    require_signature: bool = False
    verify_replies: bool = False
    unsigned_roles: Sequence[str] = UNSIGNED
    max_calls_per_caller: int = 32
    max_call_rate: float = 0.0
