"""Where the read API listens."""

from __future__ import annotations

from rtagent.model.base import Value


class UnixAddress(Value, frozen=True):
    """A unix socket (``[api] socket``)."""

    path: str

    def __str__(self) -> str:
        return self.path


class TcpAddress(Value, frozen=True):
    """A port on the loopback interface (``[api] port``); 0 is any that is free."""

    port: int

    def __str__(self) -> str:
        return f"127.0.0.1:{self.port}"


Address = UnixAddress | TcpAddress
