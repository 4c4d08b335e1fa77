"""The WSGI application of the read API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from rtagent.api.reply import Reply, document, problem
from rtagent.api.routes import Sources, answer
from rtagent.ports import Reporter

METHODS = ("GET", "HEAD")

#: WSGI's; its result is not used.
StartResponse = Callable[[str, list[tuple[str, str]]], object]


class Application:
    """Answers GET and HEAD from the sources; a view that fails is logged and answered with 500."""

    def __init__(self, sources: Sources, reporter: Reporter) -> None:
        self._sources, self._reporter = sources, reporter.named(__name__)

    def __call__(
        self, environ: Mapping[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        method, target = environ["REQUEST_METHOD"], _target(environ)
        reply = self._reply(method, target)
        headers = [
            ("Content-Type", reply.media_type),
            ("Content-Length", str(len(reply.body))),
            ("Cache-Control", "no-store"),
        ]
        if reply.status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", ", ".join(METHODS)))
        start_response(f"{reply.status.value} {reply.status.phrase}", headers)
        self._reporter.log("debug", f"read API: {method} {target}: {reply.status.value}")
        return [] if method == "HEAD" else [reply.body]

    def _reply(self, method: str, target: str) -> Reply:
        if method not in METHODS:
            status = HTTPStatus.METHOD_NOT_ALLOWED
            return document(problem(status, f"{method}: this API is read-only"), status)
        try:
            return answer(self._sources, target)
        except Exception as error:  # a defect of a view must not stop the agent
            self._reporter.log("error", f"read API: {target}: {error!r}")
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            return document(problem(status, "a defect; see the agent's log"), status)


def _target(environ: Mapping[str, Any]) -> str:
    """Return path and query as they were sent, because a name may contain an encoded slash.

    ``REQUEST_URI`` is not part of WSGI. Servers that lack it have decoded the path.
    """
    if "REQUEST_URI" in environ:
        return str(environ["REQUEST_URI"])
    path, query = quote(environ["PATH_INFO"], encoding="latin-1"), environ.get("QUERY_STRING")
    return f"{path}?{query}" if query else path
