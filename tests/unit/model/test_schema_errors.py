"""Explanations of refused documents."""

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from rtagent.model.schema_errors import schema_errors
from rtagent.rpc import schemas
from rtagent.rpc.methods import METHODS, SCHEDULER_API
from tests.support.hosts import uid
from tests.support.rpc import build

SCHEMA = schemas.arguments(METHODS["instance_claim"])
#: The methods of both APIs.
EVERY = {
    **{f"rtagent.{name}": method for name, method in METHODS.items()},
    **{
        f"scheduler.{name}": method
        for name, method in SCHEDULER_API.methods.items()
        if name != "ping"
    },
}
VCPUS = "$.instance.flavor.vcpus"


def deep(levels: int) -> list:
    nested: list = []
    for _ in range(levels):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (0, "must be at least 1"),
        (10**5000, "must be at most 2147483647"),
        (True, "must be an integer, not a boolean"),
        (1.0, "must be an integer, not a number"),
        (float("nan"), "must be an integer, not nan"),
        (None, "must be an integer, not null"),
        (deep(100_000), "must be an integer, not a list"),
        (b"1", "must be an integer, not bytes"),
    ],
    ids=itertools.count(),
)
def test_an_invalid_integer(value: Any, sentence: str):
    assert schema_errors(SCHEMA, build(vcpus=value)) == [(VCPUS, sentence)]


STORABLE = "must be text that can be stored, without NUL and without halves of characters"
REQUEST = {"instance": {"uuid": uid(), "flavor": {"vcpus": 1}, "pci_requests": [{"source": "x"}]}}


DEVICE = ".instance.pci_requests[0]"
SOURCES = "must be one of 'flavor_alias', 'neutron_port'"
OF_A_DEVICE = {f"{DEVICE}.count": "is required", f"{DEVICE}.source": SOURCES}
LONG, SHORT = "x" * 256, "must have at most 255 characters"
INTEGER, TEXT = "must be an integer", "must be a string, not an integer"
ODD_FIELD = {'.limits["x y"]': "is not a field here"}
RATIO = "ram_allocation_ratio"
CELLS_RATIO = f".limits.numa_topology.{RATIO}"


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({"node": LONG}, {".node": SHORT}),
        ({"node": "\0"}, {".node": STORABLE}),
        ({"limits": 5}, {".limits": "must be an object or null, not an integer"}),
        ({"limits": {"memory_mb": "1"}}, {".limits.memory_mb": f"{INTEGER} or null, not a string"}),
        ({"limits": {"vcpu": -1, "x y": 0}}, {".limits.vcpu": "must be at least 0", **ODD_FIELD}),
        ({"limits": {"numa_topology": {RATIO: 0}}}, {CELLS_RATIO: "must be more than 0"}),
        ({"extra_resource": {"A": None}}, {".extra_resource.A": f"{INTEGER} or a list, not null"}),
        ({"extra_resource": {"B": ["x", 1]}}, {".extra_resource.B[1]": TEXT}),
        ({"extra_resource": {LONG: 1}}, {f".extra_resource.{LONG}": f"as a name {SHORT}"}),
        ({"extra_resource": {1: 1}}, {".extra_resource": "keys must be strings, not int"}),
        ({"\ud800": 1}, {'["\\ud800"]': "is not a field here"}),
        (REQUEST, {".instance.flavor.memory_mb": "is required", **OF_A_DEVICE}),
    ],
    ids=itertools.count(),
)
def test_an_invalid_argument(change: dict[Any, Any], errors: dict[str, str]):
    found = schema_errors(SCHEMA, {**build(), **change})
    assert found == [(f"${path}", sentence) for path, sentence in errors.items()]


@pytest.mark.parametrize("uuid", [uid().upper().replace("0", "A"), uid()[:-1], uid() + "\n", ""])
def test_a_uuid_has_its_canonical_form(uuid: str):
    document = {**build(), "operation_id": uuid}
    assert [path for path, _ in schema_errors(SCHEMA, document)] == ["$.operation_id"]


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_rule_of_a_schema_has_an_explanation(name: str):
    rules = set(_rules(schemas.arguments(EVERY[name])))
    unexplained = {rule for rule in rules if "breaks the rule" in " ".join(_sentences(*rule))}
    assert unexplained == set()


def _rules(schema: Any) -> Iterator[tuple[str, Any]]:
    """Keywords that a value may break, each with its own value."""
    if isinstance(schema, list):
        for each in schema:
            yield from _rules(each)
    elif isinstance(schema, dict):
        for keyword, value in schema.items():
            if keyword in BREAKABLE:
                yield keyword, value
            yield from _rules(value)


@cache  # many methods have the same rules
def _sentences(keyword: str, value: Any) -> list[str]:
    broken = {keyword: value, "type": BREAKABLE[keyword][0]}
    return [sentence for _, sentence in schema_errors(broken, BREAKABLE[keyword][1])]


#: Keywords with a type to which they apply, and a value of it that breaks all that there are.
BREAKABLE: dict[str, tuple[str, Any]] = {
    "minimum": ("integer", -1),
    "maximum": ("integer", 2**63),
    "exclusiveMinimum": ("number", -1.0),
    "exclusiveMaximum": ("number", 2.0**63),
    "minLength": ("string", ""),
    "maxLength": ("string", "x" * 10**5),
    "minItems": ("array", []),
    "maxItems": ("array", [0] * 10**5),
    "maxProperties": ("object", dict.fromkeys(map(str, range(10**5)))),
    "pattern": ("string", "\0"),
}


@pytest.mark.parametrize("document", [None, 1, [], "x", deep(100_000)], ids=itertools.count())
def test_arguments_that_are_not_an_object(document: object):
    ((path, sentence),) = schema_errors(SCHEMA, document)
    assert path == "$" and sentence.startswith("must be an object, not ")


def test_a_sentence_does_not_repeat_what_was_sent():
    document = {**build(), "tag": "x" * 1_000_000, "operation_id": "y" * 1_000_000}
    assert all(len(sentence) < 200 for _, sentence in schema_errors(SCHEMA, document))
