"""Documents generated from JSON Schemas: valid ones, and ones that are invalid at known paths."""

import copy
import json
import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from rtagent.model.base import STORABLE
from rtagent.rpc import AGENT, SCHEDULER, schemas
from rtagent.rpc.methods import TABLES
from rtagent.rpc.schemas import Schema

HUGE = 10**400
_LONG = "x" * 200_000
_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
_SHORT = st.text(_CHARACTERS, max_size=8)
_UUIDS = st.uuids().map(str)

JsonPath = tuple[str | int, ...]


def jsonpath(path: JsonPath) -> str:
    """A path as refusals write it."""
    return "$" + "".join(
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", step)
        else f"[{json.dumps(step)}]"
        for step in path
    )


def alternatives(schema: Schema, root: Schema) -> list[Schema]:
    """The schemas that a value may match, without references and unions."""
    if "$ref" in schema:
        return alternatives(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        return [one for option in schema["anyOf"] for one in alternatives(option, root)]
    return [schema]


def valid(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    """Documents that the schema accepts."""
    return st.one_of([_valid(one, root) for one in alternatives(schema, root)])


def _valid(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            low, high = schema["minimum"], schema["maximum"]
            return st.integers(low, high) | st.sampled_from([low, high])
        case "number":
            return st.floats(0.5, schema["maximum"]) | st.integers(1, schema["maximum"])
        case "string":
            return _string(schema)
        case "array":
            least = schema.get("minItems", 0)
            return st.lists(valid(schema["items"], root), min_size=least, max_size=2)
    return _object(schema, root)


def _string(schema: Schema) -> st.SearchStrategy[str]:
    longest = schema["maxLength"]
    if longest == 36:
        return _UUIDS
    if schema.get("pattern", STORABLE) != STORABLE:
        pattern: str = schema["pattern"]
        return st.from_regex(pattern, fullmatch=True).filter(lambda text: len(text) <= longest)
    least = schema.get("minLength", 0)
    return _SHORT.filter(lambda text: len(text) >= least) | st.just("x" * longest)


def _object(schema: Schema, root: Schema) -> st.SearchStrategy[dict[str, Any]]:
    fields = {name: valid(of, root) for name, of in schema.get("properties", {}).items()}
    if not fields:
        names = _string(schema["propertyNames"])
        return st.dictionaries(names, valid(schema["additionalProperties"], root), max_size=2)
    required = set(schema["required"])
    return st.fixed_dictionaries(
        {name: of for name, of in fields.items() if name in required},
        optional={name: of for name, of in fields.items() if name not in required},
    )


def invalid(root: Schema) -> st.SearchStrategy[tuple[Any, set[str]]]:
    """Documents with one to three mistakes, and the paths at which they are."""
    return _invalid(valid(root, root), root)


@st.composite
def _invalid(
    draw: st.DrawFn, documents: st.SearchStrategy[Any], root: Schema
) -> tuple[Any, set[str]]:
    document = draw(documents)
    sites = list(_sites(document, root, root, ()))
    used: list[JsonPath] = []
    for _ in range(draw(st.integers(1, 3))):
        path, options, value = draw(st.sampled_from(sites))
        mistake, what = draw(_mistake(options, value, path))
        target = (*path, what) if mistake in ("unknown", "missing") else path
        if any(target[: len(t)] == t or t[: len(target)] == target for t in used):
            continue
        used.append(target)
        document = _with_mistake(document, path, mistake, what)
    return document, {jsonpath(path) for path in used}


def _sites(
    value: Any, schema: Schema, root: Schema, path: JsonPath
) -> Iterator[tuple[JsonPath, list[Schema], Any]]:
    """Each value of a document: its path, the schemas that it may match, and the value."""
    options = alternatives(schema, root)
    yield path, options, value
    for one in options:
        if isinstance(value, dict) and one.get("type") == "object":
            for name, inner in value.items():
                of = one.get("properties", {}).get(name) or one["additionalProperties"]
                yield from _sites(inner, of, root, (*path, name))
        elif isinstance(value, list) and one.get("type") == "array":
            for at, inner in enumerate(value):
                yield from _sites(inner, one["items"], root, (*path, at))


def _mistake(
    options: list[Schema], value: Any, path: JsonPath
) -> st.SearchStrategy[tuple[str, Any]]:
    """("replace", an invalid value), or ("unknown" or "missing", the name of a field)."""
    choices = [("replace", wrong) for wrong in _values_of_other_types(options)]
    for one in options:
        choices.extend(("replace", wrong) for wrong in _out_of_bounds(one))
    for one in options:
        if isinstance(value, dict) and one.get("type") == "object":
            if "properties" in one:
                choices.extend(("unknown", name) for name in ("self", "Ünknown", "a b", "\ud800"))
                choices.extend(("missing", name) for name in one["required"])
            else:
                choices.extend(("unknown", name) for name in ("\0", "y" * 300, "\udfff"))
    if path == ():  # the arguments are an object: nothing else can be sent
        choices = [choice for choice in choices if choice[0] != "replace"]
    return st.sampled_from(choices)


_NESTED: list[Any] = reduce(lambda inner, _: [inner], range(500), [])
_SAMPLES: tuple[tuple[str, Any], ...] = (
    ("null", None),
    ("boolean", True),
    ("integer", 7),
    ("number", 1.0),
    ("number", 1.5),
    ("string", "7"),
    ("array", []),
    ("array", _NESTED),
    ("object", {}),
    ("object", {"a": {"b": _NESTED}}),
)


def _values_of_other_types(options: list[Schema]) -> Iterator[Any]:
    allowed = {"string" if "enum" in one else one["type"] for one in options}
    for type_, value in _SAMPLES:
        if type_ not in allowed and not (type_ == "integer" and "number" in allowed):
            yield value
    yield from (float("nan"), float("inf"), float("-inf"))


def _out_of_bounds(one: Schema) -> Iterator[Any]:
    if "enum" in one:
        yield "nonsense"
        return
    match one["type"]:
        case "integer":
            yield from (one["minimum"] - 1, one["maximum"] + 1, -HUGE, HUGE)
        case "number":
            yield from (0, -1, -0.5, one["maximum"] * 10, HUGE)
        case "string":
            yield from ("x" * (one["maxLength"] + 1), "\0", "a\ud800")
            if one["maxLength"] < len(_LONG):
                yield _LONG
            if one["maxLength"] == 36:
                yield from ("", "00000000-0000-0000-0000-00000000000A", f"{'0' * 8}\n")


def _with_mistake(document: Any, path: JsonPath, mistake: str, what: Any) -> Any:
    document = copy.deepcopy(document)
    if mistake == "replace":
        _at(document, path[:-1])[path[-1]] = what
    elif mistake == "missing":
        del _at(document, path)[what]
    else:
        _at(document, path)[what] = 1
    return document


def _at(document: Any, path: JsonPath) -> Any:
    for step in path:
        document = document[step]
    return document


_DATA = Path(__file__).resolve().parents[1] / "data"
#: By topic.
FILES = {
    AGENT: _DATA / "rpc_schemas.json",
    SCHEDULER: _DATA / "scheduler_rpc_schemas.json",
}


def published(topic: str) -> dict[str, Any]:
    """``{"methods": {name: {"arguments", "reply", "errors"}}, "arguments": {name: definition},
    "replies": {name: definition}}``: a definition that methods share occurs once."""
    methods: dict[str, Any] = {}
    definitions: dict[str, dict[str, Any]] = {"arguments": {}, "replies": {}}
    for name, method in TABLES[topic].methods.items():
        arguments = _plain(schemas.arguments(method))
        reply = _plain(schemas.reply(method))
        for where, schema in (("arguments", arguments), ("replies", reply)):
            for title, definition in schema.pop("$defs", {}).items():
                assert definitions[where].setdefault(title, definition) == definition
        errors = list(method.all_errors)
        methods[name] = {"arguments": arguments, "reply": reply, "errors": errors}
    shared = {where: dict(sorted(found.items())) for where, found in definitions.items()}
    return {"methods": methods, **shared}


def text(topic: str) -> str:
    """The file's content, with one line for each method and definition.

    The order of properties counts, that of definitions does not.
    """
    sections = []
    for title, entries in published(topic).items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entries[name])}" for name in entries)
        sections.append(f" {json.dumps(title)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def _plain(schema: Any) -> Any:
    """A copy without descriptions. A property may be called ``description``."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        keyword: _plain(value)
        for keyword, value in schema.items()
        if keyword != "description" or not isinstance(value, str)
    }


if __name__ == "__main__":
    for each, file in FILES.items():
        file.write_text(text(each))
