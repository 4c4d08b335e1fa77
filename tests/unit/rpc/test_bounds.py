"""Every text, list, map and number of a request has a bound, and no document nests without end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rtagent.rpc import schemas
from rtagent.rpc.method import Method
from rtagent.rpc.methods import TABLES

METHODS = [(topic, method) for topic in TABLES for method in TABLES[topic].methods.values()]
#: Values that a schema leaves open, and what bounds them. The bounds of the message apply, too.
OPEN = {
    "UpdateHostState.report{}": "rtagent.scheduler.report_documents.report_from",
}
#: What bounds a value of a type, and by which word of the schema.
BOUNDS = {"string": "maxLength", "array": "maxItems", "integer": "maximum", "number": "maximum"}
#: Values that have no size.
PLAIN = {"boolean", "null"}


def unbounded(schema: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[str]:
    """Yield the path of each value without a bound. A definition in its own parts is one, too."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if f"/{name}/" in f"/{path}":
            yield f"{path}: contains itself"
        else:
            yield from unbounded(schemas.resolve(schema, root), root, f"{path}/{name}/")
        return
    alternatives = schema.get("anyOf", ())
    for each in alternatives:
        yield from unbounded(each, root, path)
    if alternatives or {"enum", "const"} & schema.keys():
        return
    yield from _of_type(schema, root, path)


def _of_type(schema: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[str]:
    type_ = schema.get("type")
    if type_ in BOUNDS:
        if BOUNDS[type_] not in schema and "exclusiveMaximum" not in schema:
            yield path
    elif type_ == "object":
        yield from _of_object(schema, root, path)
    elif type_ not in PLAIN:
        yield path
    if "items" in schema:
        yield from unbounded(schema["items"], root, f"{path}[]")


def _of_object(schema: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        yield from unbounded(field, root, f"{path}.{name}")
    others = schema.get("additionalProperties", True)
    if others is False:
        return
    if "maxProperties" not in schema or "maxLength" not in schema.get("propertyNames", {}):
        yield path
    if isinstance(others, dict):
        yield from unbounded(others, root, f"{path}{{}}")


@pytest.mark.parametrize(
    "method", [each for _, each in METHODS], ids=[f"{topic} {each.name}" for topic, each in METHODS]
)
def test_every_value_of_a_request_has_a_bound(method: Method) -> None:
    schema = schemas.arguments(method)
    found = {path.rpartition("/")[2] or path for path in unbounded(schema, schema, "")}
    owners = {f"{method.arguments.__name__}{each}" for each in found}
    assert owners <= OPEN.keys(), owners
