"""An HTTP relay in front of Placement that spoils requests."""

import enum
import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit


class Fault(enum.Enum):
    """What happens to a request."""

    LOST = enum.auto()  # it does not arrive, and the connection is closed
    UNANSWERED = enum.auto()  # it is executed, and the connection is closed
    HANGING = enum.auto()  # it is executed, and there is no answer before the client's time-out
    CONFLICT = enum.auto()  # another client has changed the consumer or the provider
    ERROR = enum.auto()  # a server error
    NONSENSE = enum.auto()  # something else than Placement answers


_CONFLICT = {"errors": [{"status": 409, "code": "placement.concurrent_update", "detail": "relay"}]}
_ANSWERS = {
    Fault.CONFLICT: (409, json.dumps(_CONFLICT)),
    Fault.ERROR: (500, "the relay's error"),
    Fault.NONSENSE: (200, "<html>Welcome</html>"),
}


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Print nothing: clients of a relay lose connections."""


class HttpRelay:
    """Relays requests to a URL, until it is closed.

    :ivar always: the fault of every request, or None.
    :ivar seen: method and path of each request, oldest first.
    """

    def __init__(self, url: str) -> None:
        self.always: Fault | None = None
        self.seen: list[tuple[str, str]] = []
        self.closing = threading.Event()
        self._once: dict[int, Fault] = {}
        self._lock = threading.Lock()
        relay, target = self, urlsplit(url).netloc

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args: object) -> None:
                pass

            def _relay(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fault = relay.take(self.command, self.path)
                if fault in _ANSWERS:
                    status, text = _ANSWERS[fault]
                    self._answer(status, text.encode(), "text/html")
                    return
                if fault is not Fault.LOST:
                    status, answer, kind = self._forward(body)
                    if fault is None:
                        self._answer(status, answer, kind)
                        return
                if fault is Fault.HANGING:
                    relay.closing.wait(60)
                self.close_connection = True

            def _forward(self, body: bytes) -> tuple[int, bytes, str]:
                connection = http.client.HTTPConnection(target, timeout=60)
                headers = {k: v for k, v in self.headers.items() if k.lower() != "host"}
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
                connection.close()
                return answer.status, content, answer.headers.get("Content-Type") or ""

            def _answer(self, status: int, content: bytes, kind: str) -> None:
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = _relay

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def fail(self, number: int, fault: Fault) -> None:
        """Spoil one request. :param number: 0: the next one."""
        with self._lock:
            self._once[len(self.seen) + number] = fault

    def heal(self) -> None:
        """Spoil no further request."""
        with self._lock:
            self._once.clear()
            self.always = None

    def take(self, method: str, path: str) -> Fault | None:
        """Note a request, and return its fault."""
        with self._lock:
            fault = self._once.pop(len(self.seen), self.always)
            self.seen.append((method, path))
            return fault

    def close(self) -> None:
        """Close the port."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
