"""[api]: the read API."""

from collections.abc import Sequence

from oslo_config import cfg

from rtagent.conf.options import Group, mutable, option


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
