"""The JSON Schemas of the RPC API, generated from the types that the code itself uses, by which the
documents of callers are accepted or refused.

Draft 2020-12. One rule is stricter than the draft: 1.0 is not an integer.

Only msgspec decides whether to accept: in strict mode it accepts exactly the documents that the
published schemas allow. jsonschema only explains a refusal, because msgspec stops at the first
mistake.
"""

import functools
import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from rtagent.errors import InvalidRequest
from rtagent.model.base import Document, divided
from rtagent.model.event import EventDocument, EventType
from rtagent.rpc.method import Method

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


@functools.cache
def arguments(method: Method) -> Schema:
    """The schema of a method's arguments, taken together as one object."""
    return _schema(method.arguments, f"{method.name} arguments")


@functools.cache
def reply(method: Method) -> Schema:
    """The schema of a method's reply. A reply has every field, including those with
    default values, except those that are UNSET.
    """
    schema = _schema(method.reply, f"{method.name} reply")
    for definition in schema.get("$defs", {}).values():
        required, properties = definition.get("required", ()), definition["properties"].items()
        definition["required"] = [
            n for n, field in properties if n in required or "default" in field
        ]
    return schema


@functools.cache
def event(type_: EventType) -> Schema:
    """The schema of an event of a type, with the schema of its payload."""
    schema = _schema(EventDocument, type_.name)
    payload = _schema(type_.payload, "")
    schema["$defs"].update(payload["$defs"])
    properties = schema["$defs"][EventDocument.__name__]["properties"]
    properties["event_type"] |= {"const": type_.name}
    properties["payload"] = {"$ref": payload["$ref"]}
    return schema


def resolve(schema: Schema, root: Schema) -> Schema:
    """The definition in `root` that a ``$ref`` names; a schema without a ``$ref`` as it is."""
    if "$ref" not in schema:
        return schema
    resolved: Schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return resolved


def _schema(of: Any, title: str) -> Schema:
    schema = msgspec.json.schema(of, schema_hook=_any_value)
    for definition in schema.get("$defs", {}).values():
        _describe(definition)
    return {"$schema": DIALECT, "title": title, **schema}


def _describe(definition: Schema) -> None:
    """Divide a docstring: its text describes the object, its ``:ivar`` lines the properties."""
    text, fields = divided(" ".join(definition.pop("description", "").split()))
    if text.strip():
        definition["description"] = text.strip()
    for name, description in fields.items():
        definition["properties"][name]["description"] = description.strip()


def _any_value(type_: type) -> Schema:
    """The schema of a field that is annotated as `object`."""
    if type_ is object:
        return {"description": "any value"}
    raise TypeError(f"no schema is known for {type_}")


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

    explained = schema_errors(arguments(method), document) if _small(document) else []
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
