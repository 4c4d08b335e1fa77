"""RpcReader: the read API's documents of another host, over RPC."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from rtagent.api.client import as_error
from rtagent.cmd.rpc_caller import RpcCaller


class RpcReader:
    """A `Reader`."""

    def __init__(self, caller: RpcCaller) -> None:
        self._caller = caller

    def get(self, *segments: str, **filters: str | None) -> dict[str, Any]:
        """Return the document at a path. :raises RtAgentError:"""
        status, body = self._read(segments, filters)
        document: dict[str, Any] = json.loads(body)
        if status >= HTTPStatus.BAD_REQUEST and "error" in document:
            raise as_error(document)
        return document

    def text(self, *segments: str, **filters: str | None) -> str:
        """Return the text at a path that has no document. :raises RtAgentError:"""
        status, body = self._read(segments, filters)
        if status >= HTTPStatus.BAD_REQUEST:
            raise as_error(json.loads(body))
        return body

    def _read(self, segments: tuple[str, ...], filters: dict[str, str | None]) -> tuple[int, str]:
        path = "/" + "/".join(quote(segment, safe="") for segment in segments)
        query = urlencode({key: value for key, value in filters.items() if value is not None})
        reply = self._caller.call("get_document", path=f"{path}?{query}" if query else path)
        return reply["status"], reply["body"]
