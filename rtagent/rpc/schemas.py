"""The JSON Schemas of the RPC API, generated from the types that the code itself uses.

Draft 2020-12. One thing is stricter than the draft: 1.0 is no integer here.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import msgspec

from rtagent.rpc.methods import Method

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


@functools.cache
def arguments(method: Method) -> Schema:
    """The schema of a method's arguments, taken together as one object."""
    return _schema(method.arguments, f"{method.name} arguments")


@functools.cache
def reply(method: Method) -> Schema:
    """The schema of a method's answer."""
    return _schema(method.reply, f"{method.name} reply")


def resolve(schema: Schema, root: Schema) -> Schema:
    """The schema that a ``$ref`` within `root` stands for, or the schema itself."""
    if "$ref" not in schema:
        return schema
    resolved: Schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return resolved


def _schema(of: Any, title: str) -> Schema:
    schema = msgspec.json.schema(of, schema_hook=_anything)
    for definition in schema.get("$defs", {}).values():
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])
    return {"$schema": DIALECT, "title": title, **schema}


def _anything(kind: type) -> Schema:
    """The schema of a value about which nothing is said."""
    if kind is object:
        return {"description": "any value"}
    raise NotImplementedError(f"no schema is known for {kind}")
