"""Every text, list, map and number of a request has a bound, and no document nests without end."""

from collections.abc import Iterator
from typing import Any

import pytest

from rtagent.rpc import schemas
from rtagent.rpc.method import Method
from rtagent.rpc.methods import TABLES
from tests.support.rpc_documents import alternatives

#: Values that a schema leaves open, and what bounds them. The bounds of the message apply, too.
OPEN = {"update_host_state.report{}": "rtagent.scheduler.report_documents.report_from"}
#: What bounds a value of a type, by which word of the schema.
BOUNDS = {"string": "maxLength", "array": "maxItems", "integer": "maximum", "number": "maximum"}
#: Values that have no size.
PLAIN = {"boolean", "null"}


def unbounded(schema: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[str]:
    """Yield the path of each value without a bound. A type that contains itself has no end here."""
    for one in alternatives(schema, root):
        type_ = one.get("type")
        if {"enum", "const"} & one.keys() or type_ in PLAIN:
            continue
        if type_ == "object":
            yield from _of_object(one, root, path)
        elif type_ not in BOUNDS or not {BOUNDS[type_], "exclusiveMaximum"} & one.keys():
            yield path
        if "items" in one:
            yield from unbounded(one["items"], root, f"{path}[]")


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
    "method",
    [method for table in TABLES.values() for method in table.methods.values()],
    ids=lambda method: method.name,
)
def test_every_value_of_a_request_has_a_bound(method: Method) -> None:
    schema = schemas.arguments(method)
    assert set(unbounded(schema, schema, method.name)) <= OPEN.keys()
