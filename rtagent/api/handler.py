"""One connection of the read API: one request, one answer."""

from __future__ import annotations

import io
import socket
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import rtagent
from rtagent.api.reply import Reply, document, problem
from rtagent.api.routes import answer

if TYPE_CHECKING:
    from rtagent.api.listener import Listener

#: A request line and its headers are never longer, bytes.
MAX_HEAD = 16 * 1024
#: How much of what nobody asked for is taken in before the connection is closed, bytes.
MAX_DRAINED = 1024 * 1024

#: What ends a head.
ENDS = (b"\r\n\r\n", b"\n\n")

METHODS = ("GET", "HEAD")


class Handler(BaseHTTPRequestHandler):
    """Reads the head within one deadline, whatever the client's pace, and never the body."""

    server: Listener
    server_version = f"rtagent/{rtagent.__version__}"
    sys_version = ""

    def setup(self) -> None:
        self.request.settimeout(self.server.patience)
        super().setup()

    def handle(self) -> None:
        try:
            head = self._read_head()
        except OSError:  # gone, or too slow: nobody to answer
            return
        if not head:
            return
        if not any(end in head for end in ENDS):
            self._reject_unfinished(head)
            return
        self.rfile.close()
        self.rfile = io.BytesIO(head)
        self.raw_requestline = self.rfile.readline()
        if self.parse_request():
            self._answer()

    def _read_head(self) -> bytes:
        """The bytes up to the empty line, or all there were before the client's end or `MAX_HEAD`.

        :raises OSError: the client is gone, or its time is up.
        """
        deadline = time.monotonic() + self.server.patience
        head = b""
        while len(head) < MAX_HEAD and not any(end in head for end in ENDS):
            received = self._receive(MAX_HEAD - len(head), deadline)
            if not received:
                break
            head += received
        self.request.settimeout(self.server.patience)
        return head

    def _reject_unfinished(self, head: bytes) -> None:
        self.command, self.requestline = "", head[:80].decode("latin-1")
        too_long = len(head) >= MAX_HEAD
        self.send_error(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if too_long else HTTPStatus.BAD_REQUEST
        )
        self._drain()

    def _drain(self) -> None:
        """Take in what the client still sends: closing on it would cut our answer short."""
        self.request.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + self.server.patience
        taken = 0
        while taken < MAX_DRAINED and (received := self._receive(MAX_HEAD, deadline)):
            taken += len(received)

    def _receive(self, size: int, deadline: float) -> bytes:
        """:raises OSError: the client is gone, or its time is up."""
        self.request.settimeout(max(deadline - time.monotonic(), 0.001))
        received: bytes = self.request.recv(size)
        return received

    def _answer(self) -> None:
        if self.command not in METHODS:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED, f"{self.command}: this API only reads")
            self._drain()
            return
        try:
            reply = answer(self.server.sources, self.path)
        except Exception as error:  # a defect of a view: told, and the next request is served
            self.server.reporter.said("error", f"read API: {self.path}: {error!r}")
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, "a defect; see the agent's log")
            return
        self._send(reply)

    def _send(self, reply: Reply) -> None:
        self.request_version = self.protocol_version  # of what could not be parsed it is 0.9
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.media_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Cache-Control", "no-store")
        if reply.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", ", ".join(METHODS))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Errors of HTTP's own, as JSON like all others."""
        status = HTTPStatus(code)
        self._send(document(problem(status, message or status.description), status))

    def log_message(self, format: str, *args: Any) -> None:
        self.server.reporter.said("debug", f"read API: {format % args}")
