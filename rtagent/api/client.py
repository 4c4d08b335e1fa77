"""ReadClient: the client of the read API."""

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

#: Seconds within which a healthy agent answers.
TIMEOUT = 10.0

REMEDY = "is rtagentd running? (--offline reads the database)"


class _Connection(http.client.HTTPConnection):
    """An HTTP connection over a unix socket, or over TCP."""

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
        """Return the document at a path: ``get("nodes", name)``, ``get("claims", state="active")``.

        A health document is returned for any status.

        :param filters: filters that are None are not sent.
        :raises AgentUnreachable: there is no reply. :raises RtAgentError: the reply is an error.
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
            reason = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
            raise AgentUnreachable(where=str(self._address), why=reason, remedy=REMEDY) from exc
        finally:
            connection.close()


def as_error(document: Mapping[str, Any]) -> RtAgentError:
    """Return the error in a document, as its own type if `rtagent.errors` has that type."""
    fields = {k: v for k, v in document.items() if k not in ("error", "retriable", "message")}
    type_ = getattr(errors, str(document["error"]), None)
    if isinstance(type_, type) and issubclass(type_, RtAgentError):
        return type_(**fields)
    return RtAgentError(document["message"])
