"""Serves Placement, as a `ForkedProgram`. Its arguments are a port and the file of the access log.

The token ``admin`` has the roles of an agent's user in a cloud: Placement allows ``POST /reshaper``
to the role ``service`` only.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

import waitress
from placement import wsgi

#: The header ``X-Openstack-Request-Id``.
REQUEST_ID = "HTTP_X_OPENSTACK_REQUEST_ID"
#: The most connections. An agent keeps several open, and further clients would have to
#: wait.
CONNECTIONS = 15_000


class AccessLog:
    """Writes ``[method, path, status, global request id]`` before the answer is sent."""

    def __init__(self, app: Callable[..., Iterable[bytes]], log: TextIO) -> None:
        self._app = app
        self._log = log

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
        target = f"{path}?{query}" if query else path

        def logged(status: str, *rest: Any) -> Any:
            code, caller = int(status.split(maxsplit=1)[0]), environ.get(REQUEST_ID, "")
            line = [environ["REQUEST_METHOD"], target, code, caller]
            self._log.write(json.dumps(line) + "\n")
            return start_response(status, *rest)

        if environ.get("HTTP_X_AUTH_TOKEN") == "admin":
            environ.setdefault("HTTP_X_ROLES", "admin,member,reader,service")
        return self._app(environ, logged)


def main(arguments: Sequence[str]) -> None:
    """Serve until the process is killed."""
    port, path = arguments
    warnings.simplefilter("ignore")
    application = wsgi.init_application()
    with open(path, "a", buffering=1) as access:
        waitress.serve(
            AccessLog(application, access),
            host="127.0.0.1",
            port=int(port),
            threads=4,
            connection_limit=CONNECTIONS,
            asyncore_use_poll=True,  # select() knows only 1,024 connections
        )
