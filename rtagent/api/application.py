"""The WSGI application of the read API."""

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

from msgspec.structs import replace

from rtagent.api.events import with_last_event_id
from rtagent.api.guard import Guard, Peer
from rtagent.api.reply import Reply, failure
from rtagent.model.printable import printable
from rtagent.ports import ACCESS_LOG, Reporter

METHODS = ("GET", "HEAD")

NOT_MODIFIED = HTTPStatus.NOT_MODIFIED

#: Headers of every reply: a browser takes a document for the type that it has, and does not name
#: the page to other servers.
SECURITY = (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"))

#: The variable with the peer of a unix socket.
PEER = "rtagent.peer"
#: Characters of a request that are logged.
MAX_LOGGED = 300

#: WSGI's; its result is not used.
StartResponse = Callable[[str, list[tuple[str, str]]], object]


class Answering(Protocol):
    """The data that the API shows."""

    def answer(self, target: str) -> Reply:
        """Return the reply to a GET of this path and query. Return at once."""


class Application:
    """Answers GET and HEAD from the sources; a view that fails is logged and answered with 500."""

    def __init__(self, sources: Answering, reporter: Reporter, guard: Guard | None = None) -> None:
        """:param guard: knows who may read; None: everyone."""
        self._sources, self._reporter = sources, reporter.named(__name__)
        self._access = reporter.named(ACCESS_LOG)
        self._guard = guard

    def __call__(
        self, environ: Mapping[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        method, target = environ["REQUEST_METHOD"], with_last_event_id(_target(environ), environ)
        reply = self._refusal(environ) or self._reply(method, target)
        if _is_known(reply, environ):
            headers = [*reply.headers.items(), *SECURITY]
            start_response(f"{NOT_MODIFIED.value} {NOT_MODIFIED.phrase}", headers)
            return []
        headers = [
            ("Content-Type", reply.media_type),
            ("Content-Length", str(len(reply.body))),
            *reply.headers.items(),
            *SECURITY,
        ]
        if reply.status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", ", ".join(METHODS)))
        start_response(f"{reply.status.value} {reply.status.phrase}", headers)
        self._reporter.log("debug", f"read API: {method} {target}: {reply.status.value}")
        return [] if method == "HEAD" else [reply.body]

    def _refusal(self, environ: Mapping[str, Any]) -> Reply | None:
        """Return why the client may not read; None: it may."""
        if self._guard is None:
            return None
        peer: Peer | None = environ.get(PEER)
        if not self._guard.allows_peer(peer):
            self._record("peer", environ, "it is not of [api] readers")
            return _forbidden(peer)
        if not self._guard.is_name(environ.get("HTTP_HOST", "")):
            self._record("host", environ, "it names another server")
            return _misdirected()
        if not self._guard.allows(environ.get("HTTP_AUTHORIZATION", "")):
            self._record("token", environ, "its token is missing or wrong")
            return _unauthorized()
        return None

    def _record(self, reason: str, environ: Mapping[str, Any], why: str) -> None:
        """Count and log a refusal."""
        self._reporter.counted("read_api_refused", reason)
        peer: Peer | None = environ.get(PEER)
        who = environ.get("REMOTE_ADDR", "")
        if peer is not None:
            who = f"uid {peer.uid}, pid {peer.pid}"
        what = printable(f"{environ['REQUEST_METHOD']} {_target(environ)}", MAX_LOGGED)
        self._access.log("info", f"refused {what} of {who}: {why}")

    def _reply(self, method: str, target: str) -> Reply:
        if method not in METHODS:
            return failure(HTTPStatus.METHOD_NOT_ALLOWED, f"{method}: this API is read-only")
        try:
            return self._sources.answer(target)
        except Exception as error:  # a defect of a view must not stop the process
            self._reporter.log("error", f"read API: {target}: {error!r}")
            why = "a defect; see the log of the process"
            return failure(HTTPStatus.INTERNAL_SERVER_ERROR, why)


def _forbidden(peer: Peer | None) -> Reply:
    who = "this process" if peer is None else f"the user with the uid {peer.uid}"
    rule = f"{who} may not read: [api] readers names the users and groups who may"
    return failure(HTTPStatus.FORBIDDEN, rule)


def _misdirected() -> Reply:
    rule = "the Host header is no name of this server: use localhost, 127.0.0.1 or [::1]"
    return failure(HTTPStatus.MISDIRECTED_REQUEST, f"{rule}, or set [api] tokens_file")


def _unauthorized() -> Reply:
    """Ask for a token. A browser asks its user for a password, which is the token."""
    rule = "a token is needed: rtagent token create makes one"
    reply = failure(HTTPStatus.UNAUTHORIZED, rule)
    return replace(reply, headers={"WWW-Authenticate": 'Bearer, Basic realm="rtagent"'})


def _is_known(reply: Reply, environ: Mapping[str, Any]) -> bool:
    """Whether the client has exactly this reply already."""
    if reply.status != HTTPStatus.OK or "ETag" not in reply.headers:
        return False
    known = environ.get("HTTP_IF_NONE_MATCH", "").split(",")
    return reply.headers["ETag"] in (each.strip().removeprefix("W/") for each in known)


def _target(environ: Mapping[str, Any]) -> str:
    """Return path and query as they were sent, because a name may contain an encoded slash.

    ``REQUEST_URI`` is not part of WSGI. Servers that lack it have decoded the path.
    """
    if "REQUEST_URI" in environ:
        return str(environ["REQUEST_URI"])
    path, query = quote(environ["PATH_INFO"], encoding="latin-1"), environ.get("QUERY_STRING")
    return f"{path}?{query}" if query else path
