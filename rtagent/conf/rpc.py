"""[rpc] and [upgrade_levels]: who may call agents and schedulers, how their own calls are signed,
and the versions that they send while hosts of two releases work together.
"""

from collections.abc import Sequence

from oslo_config import types

from rtagent.conf.options import Group, mutable, option
from rtagent.conf.types import Items

GROUP = "rpc"

#: What a caller may be. `rtagent.rpc.roles` says what each one may do.
ROLES = ("reader", "conductor", "scheduler", "agent", "operator")
#: The roles of callers that do not sign and whose context says no role.
UNSIGNED = ROLES[:-1]


class Rpc(Group, frozen=True, kw_only=True):
    """[rpc].

    :ivar keys_file:
        The file with the public keys of all callers, a JSON Web Key Set, and with the roles of each
        one. ``rtagent key generate`` adds a key, ``rtagent key revoke`` removes one, and SIGHUP
        reads the file again. Unset: no signature is accepted.
    :ivar signing_key:
        The JSON Web Key with which this program signs its calls and its replies, as ``rtagent key
        generate`` writes it. Other users must not be able to read the file. Unset: calls are not
        signed.
    :ivar signature_window:
        The largest difference between the time at which a call was signed and the clock of the
        server that receives it, in seconds, from 1 to 3600, and at most half of ``[claims]
        operation_retention``. An older or newer signature is refused.
    :ivar require_signature:
        Whether every call needs a signature. It requires ``keys_file``. If false, a call without a
        signature has the roles that its context says, or ``unsigned_roles``. A wrong signature is
        always refused. The method ``ping`` never needs one.
    :ivar verify_replies:
        Whether the calls of this program need signed replies, so that no other user of the message
        broker can answer in place of an agent or a scheduler. It requires ``keys_file`` here, with
        the keys of all agents and schedulers, and ``signing_key`` at each of them.
    :ivar unsigned_roles:
        The roles of a call that has no signature and whose context says none of these roles:
        ``reader``, ``conductor``, ``scheduler``, ``agent``, ``operator``. Without effect if
        ``require_signature`` is true.
    :ivar max_calls_per_caller:
        The number of calls of one caller that a server serves at the same time; at least 1. Further
        calls get the error TooManyRequests.
    :ivar max_call_rate:
        The number of calls per second that a server accepts from one caller; 0: no limit. Further
        calls get the error TooManyRequests.
    """

    keys_file: str | None = mutable()
    signing_key: str | None = mutable()
    signature_window: float = mutable(default=60.0, min=1.0, max=3600.0)
    require_signature: bool = mutable(default=False)
    verify_replies: bool = mutable(default=False)
    unsigned_roles: Sequence[str] = mutable(
        default=list(UNSIGNED), type=Items(types.String(choices=ROLES))
    )
    max_calls_per_caller: int = mutable(default=32, min=1)
    max_call_rate: float = mutable(default=0.0, min=0.0)


class UpgradeLevels(Group, frozen=True, kw_only=True):
    """[upgrade_levels].

    :ivar rtagent:
        The highest version of the agent's RPC API that clients may send, for example ``1.0``.
        Unset: the newest version that the client has.
    :ivar scheduler:
        The highest version of the schedulers' RPC API that clients may send, for example ``1.0``.
        Unset: the newest version that the client has.
    """

    rtagent: str | None = option(regex=r"^\d+\.\d+$")
    scheduler: str | None = option(regex=r"^\d+\.\d+$")
