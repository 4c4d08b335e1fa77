"""rtagent schema: the RPC API, for conductors in any language."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from typing import Any

from cliff.columns import FormattableColumn

from rtagent.cmd.columns import Lines, Yes
from rtagent.cmd.listing import Act, List, Show
from rtagent.rpc import schemas
from rtagent.rpc.methods import METHODS
from rtagent.rpc.reference import reference


class Document(FormattableColumn[Mapping[str, Any]]):
    """Indented JSON to a person."""

    def human_readable(self) -> str:
        return json.dumps(self._value, indent=2)


class SchemaList(List):
    """List the methods of the RPC API"""

    nouns = "methods"

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        columns = ("Method", "Changes state", "Effect")
        return columns, ((m.name, Yes(m.changes), m.effect) for m in METHODS.values())


class SchemaShow(Show):
    """Show a method's JSON Schemas: its arguments, taken as one object, and its reply"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "method", metavar="METHOD", choices=list(METHODS), help="see: schema list"
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        method = METHODS[parsed_args.method]
        return ("method", "effect", "arguments", "reply", "errors"), (
            method.name,
            method.effect,
            Document(schemas.arguments(method)),
            Document(schemas.reply(method)),
            Lines(method.all_errors),
        )


class SchemaReference(Act):
    """Print the reference of the RPC API, a page of reStructuredText"""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.app.stdout.write(reference())
