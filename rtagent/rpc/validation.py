"""Accept or refuse the documents that callers send.

Only msgspec decides whether to accept: in strict mode it accepts exactly the documents that the
published schemas allow. jsonschema only explains a refusal, because msgspec stops at the first
mistake.
"""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from rtagent.errors import InvalidRequest
from rtagent.model.base import Document
from rtagent.rpc import schemas
from rtagent.rpc.method import Method

#: The number of values of a document up to which every mistake is explained, which takes about
#: 0.2 ms for each value. Documents of clients have fewer than 200.
MAX_EXPLAINED = 256


def validate(method: Method, document: Any) -> Document:
    """Convert the document to the method's arguments.

    :raises InvalidRequest: with every invalid path; of a document with more than `MAX_EXPLAINED`
        values, with the first.
    """
    try:
        return method.converter.convert(document)
    # The second is raised for a key that is not valid Unicode.
    except (msgspec.ValidationError, UnicodeEncodeError) as refusal:
        raise _refused(method, document, refusal) from refusal


def digest(method: str, document: Mapping[str, Any]) -> str:
    """SHA-256 of method and arguments; an argument that is null counts as absent.

    ``node_uuid`` does not count: it says where the call goes, and the caller may learn it between
    two attempts.

    :param method: its name. :param document: one that `validate` has accepted.
    """
    given = {
        name: value for name, value in document.items() if value is not None and name != "node_uuid"
    }
    return hashlib.sha256(msgspec.json.encode([method, given], order="sorted")).hexdigest()


def _refused(method: Method, document: Any, refusal: Exception) -> InvalidRequest:
    # jsonschema takes long to import, and a start should not wait for it.
    from rtagent.model.schema_errors import schema_errors

    explained = schema_errors(schemas.arguments(method), document) if _small(document) else []
    found = explained or [("$", str(refusal))]
    errors = [{"path": path, "message": message} for path, message in found]
    return InvalidRequest(method=method.name, errors=errors)


def _small(document: Any) -> bool:
    """Whether a document has at most `MAX_EXPLAINED` values, in the levels that are explained."""
    from rtagent.model.schema_errors import MAX_DEPTH

    counted = 0
    for level in islice(levels(document), MAX_DEPTH):
        counted += len(level)
        if counted > MAX_EXPLAINED:
            return False
    return True


def levels(document: object) -> Iterator[list[object]]:
    """Yield the values in a document, level by level, without recursion."""
    level = [document]
    while level:
        above, level = level, []
        for value in above:
            if isinstance(value, dict):
                level.extend(value.values())
            elif isinstance(value, list | tuple):
                level.extend(value)
        if level:
            yield level
