"""Read the flavors of ``[capacity] flavors_file``: JSON or YAML, as the openstack client prints it.

A mistake names the file, the line and the key.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rtagent.conf.provider_yaml import MAX_BYTES, listed, parsed_yaml, place_in, read_bytes
from rtagent.errors import FlavorsFileError
from rtagent.model.base import MAX_INT, Value
from rtagent.model.request import Flavor

#: The size of a JSON file in bytes. That is enough for some ten thousand flavors.
MAX_JSON_BYTES = 2**23

#: The keys of each field, in a list and in the description of one flavor.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "name": ("Name", "name"),
    "flavorid": ("ID", "id"),
    "vcpus": ("VCPUs", "vcpus"),
    "memory_mb": ("RAM", "ram"),
    "root_gb": ("Disk", "disk"),
    "ephemeral_gb": ("Ephemeral", "OS-FLV-EXT-DATA:ephemeral"),
    "swap": ("Swap", "swap"),
    "extra_specs": ("Properties", "properties"),
}
#: The fields that a flavor must have. Without extra specs it could be another flavor.
_NEEDED = ("name", "vcpus", "memory_mb", "root_gb", "extra_specs")
#: The other keys that the client prints. They decide nothing here.
_IGNORED = frozenset(
    {
        *("Is Public", "RXTX Factor", "Description", "rxtx_factor", "description"),
        *("os-flavor-access:is_public", "OS-FLV-DISABLED:disabled", "access_project_ids"),
    }
)
_FIELD_OF = {key: field for field, keys in _FIELDS.items() for key in keys}
#: Extra specs as older clients print them: ``hw:cpu_policy='dedicated', hw:numa_nodes='1'``.
_PAIR = re.compile(r"(?P<key>[^\s=,]+)='(?P<value>[^']*)'(?:,\s*|$)")

#: The rule that a place breaks: the key, or "", and the rule.
_Mistake = tuple[str, str]


class _Item(Value, frozen=True, kw_only=True):
    """One flavor in the file. :ivar line: its first line. :ivar lines: those of its keys."""

    values: Any
    line: int
    lines: Callable[[str], int]


def read_flavors(location: str) -> tuple[tuple[Flavor, ...], list[FlavorsFileError]]:
    """Read the file.

    :param location: "": there is none.
    :returns: the flavors, without those that have a mistake, and every mistake.
    """
    if not location:
        return (), []
    file, flavors = Path(location), dict[str, tuple[Flavor, int]]()
    mistakes: list[FlavorsFileError] = []
    if not file.is_absolute():
        return (), [_error(file, "", "[capacity] flavors_file must be absolute")]
    try:
        items = list(_items(file))
    except FlavorsFileError as error:
        return (), [error]
    for item in items:
        flavor, wrong = _flavor(item.values)
        if flavor is not None and flavor.name in flavors:
            line = flavors[flavor.name][1]
            wrong = [("Name", f"flavor {flavor.name} is there twice, first in line {line}")]
        elif flavor is not None:
            flavors[flavor.name] = flavor, item.line
        mistakes += (_error(file, _place(item, key), rule) for key, rule in wrong)
    return tuple(flavor for flavor, _ in flavors.values()), listed(file, mistakes, _error)


def _error(file: Path, path: str, rule: str) -> FlavorsFileError:
    return FlavorsFileError(group="capacity", option="flavors_file", **place_in(file, path, rule))


def _place(item: _Item, key: str) -> str:
    return f"line {item.lines(key)}, {key}" if key else f"line {item.line}"


# -- the two formats ------------------------------------------------------------------------------


def _items(file: Path) -> Iterator[_Item]:
    """Yield the flavors of a list, or the only one."""
    if file.suffix == ".json":
        yield from _of_json(file, read_bytes(file, MAX_JSON_BYTES, _error))
        return
    root, document = parsed_yaml(file, read_bytes(file, MAX_BYTES, _error), _error)
    if isinstance(root, yaml.SequenceNode):
        for node, values in zip(root.value, document, strict=True):
            yield _of_yaml(node, values)
    elif root is not None:
        yield _of_yaml(root, document)


def _of_yaml(node: yaml.Node, values: Any) -> _Item:
    lines = {
        str(key.value): key.start_mark.line + 1
        for key, _ in (node.value if isinstance(node, yaml.MappingNode) else ())
    }
    line = node.start_mark.line + 1
    return _Item(values=values, line=line, lines=lambda key: lines.get(key, line))


def _of_json(file: Path, content: bytes) -> Iterator[_Item]:
    """Yield the flavors with their lines: each is decoded by itself."""
    try:
        text = content.decode()
        json.loads(text)  # names the place of what is no JSON
    except UnicodeDecodeError as exc:
        raise _error(file, f"byte {exc.start}", "is not UTF-8") from exc
    except json.JSONDecodeError as exc:
        raise _error(file, f"line {exc.lineno}, column {exc.colno}", exc.msg) from exc
    except (ValueError, RecursionError) as exc:
        raise _error(file, "", "a value is too long, or nested too deep") from exc
    start, decoder = _skip(text, 0), json.JSONDecoder()
    if text[start] != "[":
        yield _json_item(text, start, decoder.raw_decode(text, start)[0])
        return
    start, line, seen = _skip(text, start + 1), 1, 0
    while text[start] != "]":
        values, end = decoder.raw_decode(text, start)
        line, seen = line + text.count("\n", seen, start), start
        yield _json_item(text, start, values, line)
        start = _skip(text, end)


def _skip(text: str, start: int) -> int:
    """Return the place of the next character that is neither space nor comma."""
    while text[start] in " \t\r\n,":
        start += 1
    return start


def _json_item(text: str, start: int, values: Any, line: int = 1) -> _Item:
    def line_of(key: str) -> int:
        place = text.find(json.dumps(key), start)
        return line + text.count("\n", start, max(place, start))

    return _Item(values=values, line=line, lines=line_of)


# -- one flavor -----------------------------------------------------------------------------------


def _flavor(values: Any) -> tuple[Flavor | None, Sequence[_Mistake]]:
    """Return the flavor, or None and what is wrong with it."""
    if not isinstance(values, dict):
        return None, [("", "must be a flavor: a mapping of its properties")]
    mistakes: list[_Mistake] = []
    fields: dict[str, Any] = {}
    for key, value in values.items():
        field = _FIELD_OF.get(key)
        if field is not None:
            fields[field] = _field(field, key, value, mistakes)
        elif key not in _IGNORED:
            mistakes.append((str(key), "is no property of a flavor"))
    for field in _NEEDED:
        if field not in fields:
            remedy = ": use flavor list --long" if field == "extra_specs" else ""
            mistakes.append(("", f"has no {' or '.join(_FIELDS[field])}{remedy}"))
    return (None if mistakes else Flavor(**fields)), mistakes


def _field(field: str, key: str, value: Any, mistakes: list[_Mistake]) -> Any:
    if field == "extra_specs":
        return _extra_specs(key, value, mistakes)
    if field in ("name", "flavorid"):
        text = str(value) if isinstance(value, int) else value
        if not isinstance(text, str) or not 1 <= len(text) <= 255:
            mistakes.append((key, "must be a text of 1 to 255 characters"))
        return text
    least = 1 if field in ("vcpus", "memory_mb") else 0
    number = value or 0  # the client prints "" where there is no swap
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= MAX_INT:
        mistakes.append((key, f"must be a whole number from {least} to {MAX_INT}"))
    return number


def _extra_specs(key: str, value: Any, mistakes: list[_Mistake]) -> Mapping[str, str]:
    if isinstance(value, str):
        pairs = list(_PAIR.finditer(value))
        if "".join(pair.group() for pair in pairs) != value:
            mistakes.append((key, "must be a mapping, or KEY='VALUE' pairs joined by commas"))
        return {pair["key"]: pair["value"] for pair in pairs}
    specs = value or {}
    if not isinstance(specs, dict):
        mistakes.append((key, "must be a mapping"))
        return {}
    for name, text in specs.items():
        if not isinstance(name, str) or isinstance(text, bool) or not isinstance(text, str | int):
            mistakes.append((key, f"{name}: must be a text: put it in quotes"))
    return {str(name): str(text) for name, text in specs.items()}
