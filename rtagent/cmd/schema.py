"""rtagent schema: the methods and JSON Schemas of the RPC API, for conductors in any language."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from typing import Any

from rtagent.cmd.base import List, Row, Rows, Show, Text
from rtagent.cmd.cells import Column
from rtagent.cmd.output import Lines, YesNo
from rtagent.rpc import schemas
from rtagent.rpc.methods import METHODS
from rtagent.rpc.reference import reference


class Document(Column[Mapping[str, Any]]):
    """Indented JSON."""

    def lines(self) -> Iterable[str]:
        return json.dumps(self._value, indent=2).split("\n")


class SchemaList(List):
    """List the methods of the RPC API."""

    nouns = "methods"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        columns = ("Method", "Changes state", "Effect")
        return columns, ((m.name, YesNo(m.changes), m.effect) for m in METHODS.values())


class SchemaShow(Show):
    """Show the JSON Schemas of a method: its arguments, as one object, and its reply."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "method",
            metavar="METHOD",
            choices=list(METHODS),
            help="The name of a method, from `schema list`.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        method = METHODS[parsed_args.method]
        return ("method", "effect", "arguments", "reply", "errors"), (
            method.name,
            method.effect,
            Document(schemas.arguments(method)),
            Document(schemas.reply(method)),
            Lines(method.all_errors),
        )


class SchemaReference(Text):
    """Print the reference of the RPC API, a page of reStructuredText."""

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return ("reference",), (reference(),)
