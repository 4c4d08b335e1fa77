"""ReadClient: asks a running agent."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from rtagent import errors
from rtagent.api.address import LOOPBACK, Address, TcpAddress
from rtagent.errors import AgentUnreachable, RtAgentError

#: Seconds within which a healthy agent has long answered.
TIMEOUT = 10.0

REMEDY = "is rtagentd running? (--offline reads the database)"


class _Connection(http.client.HTTPConnection):
    """HTTP over a unix socket, or over TCP."""

    def __init__(self, address: Address, timeout: float) -> None:
        port = address.port if isinstance(address, TcpAddress) else None
        super().__init__(LOOPBACK, port, timeout=timeout)
        self._address = address

    def connect(self) -> None:
        if isinstance(self._address, TcpAddress):
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._address.path)


class ReadClient:
    """The documents of the agent that listens at an address."""

    def __init__(self, address: Address, timeout: float = TIMEOUT) -> None:
        self._address, self._timeout = address, timeout

    def get(self, *segments: str, **filters: str | None) -> dict[str, Any]:
        """The document at a path: ``get("nodes", name)``, ``get("claims", state="active")``.

        A health document comes back whatever its status.

        :param filters: those that are None are left out.
        :raises AgentUnreachable: nobody answers. :raises RtAgentError: as the agent told it.
        """
        path = "/" + "/".join(quote(segment, safe="") for segment in segments)
        query = urlencode({key: value for key, value in filters.items() if value is not None})
        status, document = self._request(f"{path}?{query}" if query else path)
        if status >= http.client.BAD_REQUEST and "error" in document:
            raise as_error(document)
        return document

    def _request(self, target: str) -> tuple[int, dict[str, Any]]:
        connection = _Connection(self._address, self._timeout)
        try:
            connection.request("GET", target)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as exc:
            why = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
            raise AgentUnreachable(where=str(self._address), why=why, remedy=REMEDY) from exc
        finally:
            connection.close()


def as_error(document: Mapping[str, Any]) -> RtAgentError:
    """The error that a document tells of, in its own type where it has one."""
    told = {k: v for k, v in document.items() if k not in ("error", "retriable", "message")}
    kind = getattr(errors, str(document["error"]), None)
    if isinstance(kind, type) and issubclass(kind, RtAgentError):
        return kind(**told)
    return RtAgentError(document["message"])
