"""What is wrong with a document: every offending path, in plain words.

This runs on refusals only, so it is thorough rather than quick. Sentences never repeat what was
sent: that may be of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jsonschema
from jsonschema import TypeChecker

from rtagent.model.base import STORABLE, UUID
from rtagent.rpc.primitives import Cleaner, Unusable, member
from rtagent.rpc.schemas import Schema

#: (JSONPath, sentence)
Offence = tuple[str, str]
#: A `jsonschema.ValidationError`, whose fields are declared as possibly unset and never are.
Broken = Any

_NOUNS = {
    "null": "null",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "a list",
    "object": "an object",
}


def _is_integer(_checker: TypeChecker, value: object) -> bool:
    return type(value) is int


_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    # 1.0 is an integer by the draft; nowhere else in Python.
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


def offences(schema: Schema, document: object) -> list[Offence]:
    """Every path that breaks the schema, each with a sentence; in the order of the paths."""
    cleaner = Cleaner()
    cleaned = cleaner.clean(document)
    found = [(path, f"keys must be strings, not {kind}") for path, kind in cleaner.bad_keys]
    for error in _Validator(schema).iter_errors(cleaned):
        found.extend(_told(error))
    return sorted(set(found))


def _told(error: Broken) -> Iterator[Offence]:
    tell = _SENTENCES.get(str(error.validator), _other)
    if "propertyNames" in list(error.schema_path)[-2:]:  # then the instance is the name
        for _, sentence in tell(error):
            yield _path(error) + member(error.instance), f"as a name {sentence}"
    else:
        yield from tell(error)


def _path(error: Broken) -> str:
    return "$" + "".join(map(member, error.absolute_path))


def _noun(value: object) -> str:
    if isinstance(value, Unusable):
        return value.what
    kinds = (kind for kind in _NOUNS if _Validator.TYPE_CHECKER.is_type(value, kind))
    return _NOUNS[next(kinds)]


def _type(error: Broken) -> Iterator[Offence]:
    yield _path(error), f"must be {_NOUNS[error.validator_value]}, not {_noun(error.instance)}"


def _required(error: Broken) -> Iterator[Offence]:
    for name in error.validator_value:
        if name not in error.instance:
            yield _path(error) + member(name), "is required"


def _additional(error: Broken) -> Iterator[Offence]:
    for name in error.instance:
        if name not in error.schema.get("properties", {}):
            yield _path(error) + member(name), "is not a field here"


def _any_of(error: Broken) -> Iterator[Offence]:
    """What is wrong by the alternative that the value is meant to be: the one of its type."""
    alternatives: dict[Any, list[Broken]] = {}
    for inner in error.context or ():
        alternatives.setdefault(inner.schema_path[0], []).append(inner)
    wanted: list[str] = []
    for errors in alternatives.values():
        mistaken = [e for e in errors if e.validator == "type" and not e.path]
        if not mistaken:
            for inner in errors:
                yield from _told(inner)
            return
        wanted.extend(_NOUNS[e.validator_value] for e in mistaken)
    yield _path(error), f"must be {' or '.join(wanted)}, not {_noun(error.instance)}"


def _limit(template: str) -> Callable[[Broken], Iterator[Offence]]:
    def tell(error: Broken) -> Iterator[Offence]:
        yield _path(error), template.format(error.validator_value)

    return tell


def _other(error: Broken) -> Iterator[Offence]:
    yield _path(error), f"breaks the rule {error.validator}"


def _enum(error: Broken) -> Iterator[Offence]:
    yield _path(error), f"must be one of {_listed(error.validator_value)}"


def _pattern(error: Broken) -> Iterator[Offence]:
    yield _path(error), _PATTERNS[error.validator_value]


#: What the patterns of all documents mean.
_PATTERNS = {
    UUID: "must be a uuid, in lower case and with its dashes",
    STORABLE: "must be text that can be stored, without NUL and without halves of characters",
}


def _listed(values: Sequence[object]) -> str:
    return ", ".join(f"'{value}'" for value in values)


_SENTENCES: dict[str, Callable[[Broken], Iterator[Offence]]] = {
    "type": _type,
    "required": _required,
    "additionalProperties": _additional,
    "anyOf": _any_of,
    "enum": _enum,
    "minimum": _limit("must be at least {}"),
    "maximum": _limit("must be at most {}"),
    "exclusiveMinimum": _limit("must be more than {}"),
    "minItems": _limit("must have {} or more items"),
    "minLength": _limit("must have {} or more characters"),
    "maxLength": _limit("must have at most {} characters"),
    "pattern": _pattern,
}
