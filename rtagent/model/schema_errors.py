"""Explain why a document violates its schema, with a sentence for every invalid path.

This runs for refused documents only, so it is thorough rather than fast. Sentences never repeat
what was sent, because that may be of any size.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jsonschema
from jsonschema import TypeChecker

from rtagent.model import base
from rtagent.model.address import PCI_ADDRESS

#: The maximum depth of a document. The deepest document of any method has six levels.
MAX_DEPTH = 32
#: Integers are cut to this: larger than any bound of a schema, and short when printed.
MAX_MAGNITUDE = 2**64

#: A JSON Schema, draft 2020-12.
Schema = dict[str, Any]
#: (JSONPath, sentence)
SchemaError = tuple[str, str]
#: A `jsonschema.ValidationError`. Its fields are declared as possibly unset, and never are.
_Error = Any

_TYPES = {
    "null": "null",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "a list",
    "object": "an object",
}
#: The meaning of the patterns of the schemas.
_PATTERNS = {
    PCI_ADDRESS: "must be a PCI address like 0000:08:00.0, in lower case",
    base.UUID: "must be a uuid, in lower case and with its dashes",
    base.UUIDS: "must be uuids joined by commas, in lower case and with their dashes",
    base.RESOURCE_NAME: "must have upper-case letters, digits and underscores only",
    base.SUFFIX: "must have letters, digits, underscores and dashes only",
    base.STORABLE: "must be text that can be stored, without NUL and without halves of characters",
    base.DOMAIN_TITLE: "must be text without control characters and noncharacters",
    base.BASE64: "must be text in base64",
    base.TIME: "must be a time in UTC such as 2030-01-31T18:00:00Z",
}
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def schema_errors(schema: Schema, document: object) -> list[SchemaError]:
    """Return every path that violates the schema, with a sentence for each, sorted."""
    cleaner = _Cleaner()
    cleaned = cleaner.clean(document)
    found = [(path, f"keys must be strings, not {type_}") for path, type_ in cleaner.bad_keys]
    for error in _Validator(schema).iter_errors(cleaned):
        found.extend(_explain(error))
    return sorted(set(found))


# -- documents that JSON cannot express -----------------------------------------------------------


class _Unusable:
    """Replaces a part of a document that JSON cannot express, or that is nested too deep.

    It has no type that a schema knows, so the validator refuses it at its path.
    """

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        return self.what


class _Cleaner:
    """Copies documents and replaces their unusable parts.

    :ivar bad_keys: (path of an object, type of a key of it that is not a string). The copy does not
        have these entries.
    """

    def __init__(self) -> None:
        self.bad_keys: list[tuple[str, str]] = []

    def clean(self, value: Any, path: str = "$", depth: int = 0) -> Any:
        """A copy made of JSON primitives and `_Unusable`."""
        if value is None or isinstance(value, bool | str):
            return value
        if depth > MAX_DEPTH:
            return _Unusable(f"nested more than {MAX_DEPTH} levels deep")
        match value:
            case int():
                return max(-MAX_MAGNITUDE, min(value, MAX_MAGNITUDE))
            case float():
                return value if math.isfinite(value) else _Unusable(str(value))
            case dict():
                return self._clean_object(value, path, depth)
            case list() | tuple():
                items = enumerate(value)
                return [self.clean(item, f"{path}[{at}]", depth + 1) for at, item in items]
        return _Unusable(type(value).__name__)

    def _clean_object(self, value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
        cleaned = {}
        for key, item in value.items():
            if isinstance(key, str):
                cleaned[key] = self.clean(item, path + step(key), depth + 1)
            else:
                self.bad_keys.append((path, type(key).__name__))
        return cleaned


def step(key: str | int) -> str:
    """A step of a JSONPath, in ASCII for any key."""
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _PLAIN_KEY.match(key) else f"[{json.dumps(key)}]"


# -- errors of the validator as sentences ---------------------------------------------------------


def _is_integer(_checker: TypeChecker, value: object) -> bool:
    return type(value) is int


_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    # The draft takes 1.0 for an integer; msgspec does not.
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


def _explain(error: _Error) -> Iterator[SchemaError]:
    explain = _EXPLANATIONS.get(str(error.validator), _other)
    if "propertyNames" in list(error.schema_path)[-2:]:  # then the instance is the name
        for _, sentence in explain(error):
            yield _path(error) + step(error.instance), f"as a name {sentence}"
    else:
        yield from explain(error)


def _path(error: _Error) -> str:
    return "$" + "".join(map(step, error.absolute_path))


def _type_of(value: object) -> str:
    if isinstance(value, _Unusable):
        return value.what
    types = (name for name in _TYPES if _Validator.TYPE_CHECKER.is_type(value, name))
    return _TYPES[next(types)]


def _type(error: _Error) -> Iterator[SchemaError]:
    yield _path(error), f"must be {_TYPES[error.validator_value]}, not {_type_of(error.instance)}"


def _required(error: _Error) -> Iterator[SchemaError]:
    for name in error.validator_value:
        if name not in error.instance:
            yield _path(error) + step(name), "is required"


def _additional(error: _Error) -> Iterator[SchemaError]:
    for name in error.instance:
        if name not in error.schema.get("properties", {}):
            yield _path(error) + step(name), "is not a field here"


def _any_of(error: _Error) -> Iterator[SchemaError]:
    """The errors of the alternative that has the value's type; without one, the types allowed."""
    alternatives = base.grouped((inner.schema_path[0], inner) for inner in error.context or ())
    wanted: list[str] = []
    for errors in alternatives.values():
        mistyped = [e for e in errors if e.validator == "type" and not e.path]
        if not mistyped:
            for inner in errors:
                yield from _explain(inner)
            return
        wanted.extend(_TYPES[e.validator_value] for e in mistyped)
    yield _path(error), f"must be {' or '.join(wanted)}, not {_type_of(error.instance)}"


def _enum(error: _Error) -> Iterator[SchemaError]:
    yield _path(error), f"must be one of {_listed(error.validator_value)}"


def _pattern(error: _Error) -> Iterator[SchemaError]:
    yield _path(error), _PATTERNS[error.validator_value]


def _other(error: _Error) -> Iterator[SchemaError]:
    yield _path(error), f"breaks the rule {error.validator}"


def _limit(template: str) -> Callable[[_Error], Iterator[SchemaError]]:
    def explain(error: _Error) -> Iterator[SchemaError]:
        yield _path(error), template.format(error.validator_value)

    return explain


def _listed(values: Sequence[object]) -> str:
    return ", ".join(f"'{value}'" for value in values)


_EXPLANATIONS: dict[str, Callable[[_Error], Iterator[SchemaError]]] = {
    "type": _type,
    "required": _required,
    "additionalProperties": _additional,
    "anyOf": _any_of,
    "enum": _enum,
    "minimum": _limit("must be at least {}"),
    "maximum": _limit("must be at most {}"),
    "exclusiveMinimum": _limit("must be more than {}"),
    "minItems": _limit("must have {} or more items"),
    "maxItems": _limit("must have at most {} items"),
    "maxProperties": _limit("must have at most {} fields"),
    "minLength": _limit("must have {} or more characters"),
    "maxLength": _limit("must have at most {} characters"),
    "pattern": _pattern,
}
