"""ReadClient: the client of the read API. Reader: whatever answers as the read API does.
EventStream: reads ``/events`` as a browser's ``EventSource`` does: no gaps, no repetitions.
"""

import http.client
import json
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from rtagent import errors
from rtagent.api.address import LOOPBACK, Address, HttpsAddress, TcpAddress, UnixAddress
from rtagent.errors import AgentUnreachable, RtAgentError
from rtagent.model.base import Value
from rtagent.scheduler import errors as scheduler_errors

#: Seconds within which a healthy agent answers.
TIMEOUT = 10.0

REMEDY = "is rtagentd running? (--offline reads the database)"


class _UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a unix socket."""

    def __init__(self, address: UnixAddress, timeout: float) -> None:
        super().__init__(LOOPBACK, timeout=timeout)
        self._address = address

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._address.path)


class Reader(ABC):
    """Reads the documents of the read API, wherever they are made."""

    def get(self, *segments: str, **filters: str | None) -> dict[str, Any]:
        """Return the document at a path: ``get("nodes", name)``, ``get("claims", state="active")``.

        A health document is returned for any status.

        :param filters: filters that are None are not sent.
        :raises AgentUnreachable: there is no reply. :raises RtAgentError: the reply is an error.
        """
        status, body = self.request(_target(segments, filters))
        document = self.decoded(body)
        if status >= http.client.BAD_REQUEST and "error" in document:
            raise as_error(document)
        return document

    def text(self, *segments: str, **filters: str | None) -> str:
        """Return the text at a path that has no document. :raises RtAgentError: as `get`."""
        status, body = self.request(_target(segments, filters))
        if status >= http.client.BAD_REQUEST:
            raise as_error(self.decoded(body))
        return body.decode(errors="replace")

    @abstractmethod
    def request(self, target: str) -> tuple[int, bytes]:
        """Return the status and the body of the reply to a GET of this path and query."""

    def decoded(self, body: bytes) -> dict[str, Any]:
        """Return the document of a body."""
        document: dict[str, Any] = json.loads(body)
        return document


class ReadClient(Reader):
    """The documents of the agent that listens at an address."""

    def __init__(
        self,
        address: Address | HttpsAddress,
        timeout: float = TIMEOUT,
        *,
        remedy: str = REMEDY,
        token: str | None = None,
    ) -> None:
        """:param remedy: what an operator does if there is no reply.
        :param token: that the agent needs at a TCP address.
        """
        self._address, self._timeout, self._remedy = address, timeout, remedy
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def request(self, target: str) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request("GET", target, headers=self._headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as exc:
            raise self._unreachable(exc) from exc
        finally:
            connection.close()

    def decoded(self, body: bytes) -> dict[str, Any]:
        try:
            return super().decoded(body)
        except ValueError as exc:
            raise self._unreachable(exc) from exc

    def _connection(self) -> http.client.HTTPConnection:
        address, timeout = self._address, self._timeout
        if isinstance(address, UnixAddress):
            return _UnixConnection(address, timeout)
        if isinstance(address, TcpAddress):
            return http.client.HTTPConnection(address.host, address.port, timeout=timeout)
        context = ssl.create_default_context(cafile=address.cafile)
        return http.client.HTTPSConnection(
            address.host, address.port, timeout=timeout, context=context
        )

    def _unreachable(self, exc: Exception) -> AgentUnreachable:
        why = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
        return AgentUnreachable(where=str(self._address), why=why, remedy=self._remedy)


def _target(segments: Sequence[str], filters: Mapping[str, str | None]) -> str:
    """Return a path and query. An argument of a command may have bytes that are no text.

    :raises InvalidRequest: a name is empty, which would be the path of all that have one.
    """
    if not all(segments):
        raise errors.InvalidRequest.at(f"GET /{segments[0]}", "name", "must not be empty")
    bytes_ = "surrogateescape"
    path = "/" + "/".join(quote(segment, safe="", errors=bytes_) for segment in segments)
    given = {key: value for key, value in filters.items() if value is not None}
    query = urlencode(given, errors=bytes_)
    return f"{path}?{query}" if query else path


def as_error(document: Mapping[str, Any]) -> RtAgentError:
    """Return the error in a document, as its own type if it is a known one."""
    fields = {k: v for k, v in document.items() if k not in ("error", "retriable", "message")}
    name = str(document["error"])
    type_ = getattr(errors, name, None) or getattr(scheduler_errors, name, None)
    if isinstance(type_, type) and issubclass(type_, RtAgentError):
        return type_(**fields)
    return RtAgentError(document["message"])


#: Returns the text at ``/events`` for these filters.
Read = Callable[[Mapping[str, str]], str]


class Received(Value, frozen=True, kw_only=True):
    """What one request has brought.

    :ivar events: documents. :ivar gap: events that are not there any more, see ``/events``; None:
        there is no gap. :ivar complete: there is no more at present.
    :ivar retry: seconds until the next request.
    """

    events: tuple[Mapping[str, Any], ...]
    gap: Mapping[str, Any] | None
    complete: bool
    retry: float


class EventStream:
    """:ivar place: the id of the last event that was read, or "". A reader that begins there later
    continues the stream.
    """

    def __init__(self, read: Read, *, place: str = "", newest: int | None = None) -> None:
        """:param place: begin after it. :param newest: without a place: begin with so many of the
        last events.
        """
        self._read, self.place, self._newest = read, place, newest

    def next(self, types: str | None = None) -> Received:
        """Request the next events. :raises RtAgentError: what the read raises."""
        filters: dict[str, str] = {}
        if self.place:
            filters["last_event_id"] = self.place
        elif self._newest is not None:
            filters["newest"] = str(self._newest)
        if types is not None:
            filters["type"] = types
        received, self.place = _parse(self._read(filters), self.place)
        return received


def _parse(text: str, place: str) -> tuple[Received, str]:
    events: list[Mapping[str, Any]] = []
    gap, complete, retry = None, False, 1.0
    for block in text.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.splitlines())
        if "data" in fields:
            document = json.loads(fields["data"])
            if fields.get("event") == "gap":
                gap = document
            else:
                events.append(document)
        place = fields.get("id", place)
        complete = complete or fields.get("") == "complete"
        retry = int(fields["retry"]) / 1000 if "retry" in fields else retry
    return Received(events=tuple(events), gap=gap, complete=complete, retry=retry), place
