"""The JSON Schemas of the RPC API without descriptions: ``tests/data/rpc_schemas.json``.

``python -m tests.support.rpc_schemas`` writes that file. A change of it is a change of the API: it
needs a new version, and an entry in the history of `rtagent.rpc.client.AgentAPI`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rtagent.rpc import schemas
from rtagent.rpc.methods import METHODS

FILE = Path(__file__).resolve().parents[1] / "data" / "rpc_schemas.json"


def published() -> dict[str, Any]:
    """``{"methods": {name: {"arguments", "reply", "errors"}}, "arguments": {name: definition},
    "replies": {name: definition}}``: a definition that methods share occurs once."""
    methods: dict[str, Any] = {}
    definitions: dict[str, dict[str, Any]] = {"arguments": {}, "replies": {}}
    for name, method in METHODS.items():
        arguments = _plain(schemas.arguments(method))
        reply = _plain(schemas.reply(method))
        for where, schema in (("arguments", arguments), ("replies", reply)):
            for title, definition in schema.pop("$defs", {}).items():
                assert definitions[where].setdefault(title, definition) == definition
        errors = list(method.all_errors)
        methods[name] = {"arguments": arguments, "reply": reply, "errors": errors}
    shared = {where: dict(sorted(found.items())) for where, found in definitions.items()}
    return {"methods": methods, **shared}


def text() -> str:
    """The file's content, with one line for each method and definition.

    The order of properties counts, that of definitions does not.
    """
    sections = []
    for title, entries in published().items():
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
    FILE.write_text(text())
