"""[rpc], [upgrade_levels] and [api]: who may call agents and schedulers, how their own calls are
signed, and who may read.
"""

from collections.abc import Sequence

from oslo_config import cfg, types

from rtagent.conf.options import Group, Items, RpcVersion, mutable, option

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
        Unset: the newest version that the client has. A ``nova.conf`` may set it for Nova's
        scheduler, which is refused: set it to nothing in a later file.
    """

    rtagent: str | None = option(type=RpcVersion())
    scheduler: str | None = option(type=RpcVersion())


class Api(Group, frozen=True, kw_only=True):
    """[api]. :ivar page_url: None: see `rtagent.api.address.page_url`.
    :ivar address:
        The address on which the read API listens: the path of a unix socket; ``127.0.0.1:PORT`` for
        a metrics scraper on this host; or another IP address and a port, as ``0.0.0.0:8775`` or
        ``[::]:8775``, which needs ``tls_cert``, ``tls_key`` and ``tokens_file``.

        Over the socket, root, the daemon's own user and those of ``readers`` can read all claims. A
        loopback port can be read by every local user, unless ``tokens_file`` is set.
    :ivar readers:
        The users and groups who may read over the unix socket, besides root and the daemon's own
        user. A name is that of a user, ``@`` and a name that of a group:
        ``prometheus,@monitoring``. Numbers are ids. Unset: the group of the daemon, so that
        operators who belong to it can read. A list replaces that, and lets every user open the
        socket: others get the status 403. The directory of the socket must be accessible to the
        readers, too. It is for the sockets of the agent and of the scheduler.
    :ivar page_url:
        The URL at which browsers reach the pages of this agent. The agent reports it, and the pages
        of ``rtagent-scheduler`` link to it. Set it to the name that the certificate ``tls_cert``
        has, or to that of a proxy before ``address``. Unset: ``https``, the port of ``address``,
        and its IP address or ``my_ip``; nothing if ``address`` can only be reached on this host.
    :ivar tls_cert:
        The PEM file with the certificate of the read API, and the certificates that sign it. It is
        for TCP addresses, of the agent and of the scheduler. SIGHUP reads it again.
    :ivar tls_key: The PEM file with the key of ``tls_cert``, without a password.
    :ivar tokens_file:
        The file with the tokens that may read over TCP: ``rtagent token create`` adds one. It has
        only their digests. SIGHUP reads it again. Tokens are not needed on a unix socket.
    """

    address: str = option(default="$state_path/rtagent.sock")
    readers: Sequence[str] | None = mutable()
    page_url: str | None = mutable(
        cfg.URIOpt,
        schemes=("http", "https"),
        max_length=255,
        sample_default="https://compute1.example:8775/",
    )
    tls_cert: str | None = option()
    tls_key: str | None = option()
    tokens_file: str | None = option()
