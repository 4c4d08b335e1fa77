"""The method that reads the documents of the read API, and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol

from msgspec import Meta

from rtagent.model.base import STORABLE
from rtagent.rpc import replies
from rtagent.rpc.errors import DocumentTooLarge
from rtagent.rpc.method import Arguments, rpc_method
from rtagent.rpc.roles import READER

#: The most characters of a document. Such a reply takes the broker about as long as an audit.
MAX_DOCUMENT = 2**23

Path = Annotated[str, Meta(max_length=4096, pattern=STORABLE)]


class Answered(Protocol):
    """A reply of the read API."""

    @property
    def status(self) -> int: ...

    @property
    def body(self) -> bytes: ...


#: Returns the read API's reply to a GET of this path and query. Waits for nothing.
Answer = Callable[[str], Answered]


class GetDocument(Arguments, frozen=True, kw_only=True):
    """:ivar path: with its query, percent-encoded: ``/claims?state=active``."""

    path: Path


class DocumentEndpoint:
    """Serves the method."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @rpc_method(READER, errors=("DocumentTooLarge",))
    def get_document(self, arguments: GetDocument) -> replies.Document:
        """Return what a GET of the read API returns at a path, for callers who cannot connect to
        it. An error of the read API is a document, too."""
        reply = self._answer(arguments.path)
        text = reply.body.decode(errors="replace")
        if len(text) > MAX_DOCUMENT:
            raise DocumentTooLarge(path=arguments.path, size=len(text), limit=MAX_DOCUMENT)
        return replies.Document(status=reply.status, body=text)
