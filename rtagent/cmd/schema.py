"""rtagent schema: the methods and JSON Schemas of the RPC API, and those of events."""

import argparse
import json
from collections.abc import Iterable, Mapping
from typing import Any

from rtagent.cmd.base import List, Row, Rows, Show, Text
from rtagent.cmd.output import Column, Lines, YesNo
from rtagent.errors import InvalidRequest
from rtagent.model.event import EVENT_TYPES, VERSION
from rtagent.rpc import AGENT, schemas
from rtagent.rpc.methods import TABLES
from rtagent.rpc.reference import reference

#: In place of a topic: the events of an agent.
EVENTS = "events"


class IndentedJson(Column[Mapping[str, Any]]):
    """Indented JSON."""

    def lines(self) -> Iterable[str]:
        return json.dumps(self._value, indent=2).split("\n")


class SchemaList(List):
    """List the methods of an RPC API, or the types of events."""

    nouns = "methods"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _with_topic(parser, EVENTS)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        if parsed_args.topic == EVENTS:
            types = EVENT_TYPES.values()
            return ("Type", "Meaning"), ((each.name, each.meaning) for each in types)
        columns = ("Method", "Changes state", "Effect")
        methods = TABLES[parsed_args.topic].methods.values()
        return columns, ((m.name, YesNo(m.changes), m.effect) for m in methods)


class SchemaShow(Show):
    """Show the JSON Schemas of a method, or the JSON Schema of a type of events.

    Those of a method are of its arguments, as one object, and of its reply.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _with_topic(parser, EVENTS)
        parser.add_argument(
            "method",
            metavar="NAME",
            help="The name of a method, or of a type of events, from `schema list`.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        if parsed_args.topic == EVENTS:
            return _event(parsed_args.method)
        methods = TABLES[parsed_args.topic].methods
        method = methods.get(parsed_args.method)
        if method is None:
            rule = f"no method of the topic {parsed_args.topic}; there are {', '.join(methods)}"
            raise InvalidRequest.at("schema show", parsed_args.method, rule)
        return ("method", "effect", "arguments", "reply", "errors"), (
            method.name,
            method.effect,
            IndentedJson(schemas.arguments(method)),
            IndentedJson(schemas.reply(method)),
            Lines(method.all_errors),
        )


class SchemaReference(Text):
    """Print the reference of an RPC API, a page of reStructuredText."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _with_topic(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return ("reference",), (reference(parsed_args.topic),)


def _event(name: str) -> Row:
    """Return what is shown of a type of events. :raises InvalidRequest: there is no such type."""
    type_ = EVENT_TYPES.get(name)
    if type_ is None:
        raise InvalidRequest.at(
            "schema show", name, f"no type of events; there are {', '.join(EVENT_TYPES)}"
        )
    return ("type", "meaning", "version", "schema"), (
        type_.name,
        type_.meaning,
        VERSION,
        IndentedJson(schemas.event(type_)),
    )


def _with_topic(parser: argparse.ArgumentParser, *more: str) -> None:
    """:param more: what can be named in addition to the topics of RPC APIs."""
    parser.add_argument(
        "--topic",
        choices=[*TABLES, *more],
        default=AGENT,
        help="The API: of the agents, or of the schedulers"
        + (", or the events of an agent" if more else "")
        + ". Default: %(default)s.",
    )
