"""[api]: the read API."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.model.base import Value

GROUP = "api"

OPTS = [
    cfg.StrOpt(
        "address",
        default="$state_path/rtagent.sock",
        help="""
The address on which the read API listens: the path of a unix socket, or ``127.0.0.1:PORT`` for a
metrics scraper on this host.

Every user who can open the socket can read all claims. The socket is created for the agent's own
user and group; a TCP port can be read by every local user.
""",
    ),
]


class Api(Value, frozen=True, kw_only=True):
    """:ivar address: a path, or a loopback ``address:port``."""

    address: str
