"""Where the read API listens."""

from __future__ import annotations

from rtagent.errors import ConfigError
from rtagent.model.base import Value

LOOPBACK = "127.0.0.1"


class UnixAddress(Value, frozen=True):
    """A unix socket."""

    path: str

    def __str__(self) -> str:
        return self.path


class TcpAddress(Value, frozen=True):
    """A port on the loopback interface; 0 is any that is free."""

    port: int

    def __str__(self) -> str:
        return f"{LOOPBACK}:{self.port}"


Address = UnixAddress | TcpAddress


def parse(text: str) -> Address:
    """The absolute path of a socket, or ``127.0.0.1:PORT``.

    :raises ConfigError: it is neither.
    """
    if text.startswith("/"):
        return UnixAddress(text)
    host, _, port = text.rpartition(":")
    if host != LOOPBACK or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigError(
            group="api",
            option="address",
            value=text,
            rule=f"must be an absolute path or {LOOPBACK}:PORT",
        )
    return TcpAddress(int(port))
