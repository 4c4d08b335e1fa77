"""The JSON Schemas of the RPC APIs without descriptions, in ``tests/data``.

``python -m tests.support.rpc_schemas`` writes these files. A change of one is a change of its API:
it needs a new version, and an entry in the history of `rtagent.rpc.client.AgentAPI` or of
`rtagent.rpc.scheduler_client.SchedulerAPI`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rtagent.rpc import schemas, topics
from rtagent.rpc.tables import TABLES

_DATA = Path(__file__).resolve().parents[1] / "data"
#: By topic.
FILES = {
    topics.AGENT: _DATA / "rpc_schemas.json",
    topics.SCHEDULER: _DATA / "scheduler_rpc_schemas.json",
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
