"""[api]: the read API."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.model.base import Value

GROUP = "api"

OPTS = [
    cfg.StrOpt(
        "socket",
        default="$state_path/rtagent.sock",
        help="""
The unix socket of the read API. Who may open it may see every claim: it is made readable for the
agent's own user and group only.
""",
    ),
    cfg.PortOpt(
        "port",
        help="""
A loopback TCP port on which the read API answers too, for a metrics scraper on this host. Unset:
none. Every local user may then read it.
""",
    ),
]


class Api(Value, frozen=True, kw_only=True):
    """:ivar port: on the loopback address, or None."""

    socket: str
    port: int | None
