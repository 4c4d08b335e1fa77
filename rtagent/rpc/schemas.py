"""The JSON Schemas of the RPC API, generated from the types that the code itself uses.

Draft 2020-12. One rule is stricter than the draft: 1.0 is not an integer.
"""

import functools
from typing import Any

import msgspec

from rtagent.model.base import divided
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
