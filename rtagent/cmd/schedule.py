"""rtagent schedule: what the scheduler has selected, or would select, and why."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from rtagent.cmd.base import List, Row, Rows, Show, columns, row
from rtagent.cmd.claim_request import (
    FLAVOR,
    add_fields,
    add_volume_backed,
    check_options,
    field,
    fields,
    hints,
    mapping,
    pair,
    read_document,
)
from rtagent.cmd.output import Column, KeyValues, Lines, OrEmpty, timestamp
from rtagent.errors import InvalidRequest
from rtagent.model.server import Purpose

#: Columns before and after those of the filters.
FIRST, LAST = ("rank", "host", "nodename"), ("weight", "weights")
#: What a filter's cell shows for a host that passes.
PASSES = "yes"

METHOD = "explain"
#: The request spec if no option describes it.
NO_OPTIONS: Mapping[str, Any] = {"flavor": {}}

#: Options of the request: (metavar, type, help).
_SPEC = {
    "project": ("ID", str, "The project"),
    "user": ("ID", str, "The user"),
    "availability-zone": ("ZONE", str, "The requested availability zone"),
    "os-type": ("TYPE", str, "The type of the operating system"),
}
#: Options that may be repeated: the field, and help.
_LISTS = {
    "--ignore-host": ("ignore_hosts", "A host that is not selected. May be repeated."),
    "--force-host": ("force_hosts", "Only this host, without filters. May be repeated."),
}
#: The path in the document, and the option that sets it.
_PATHS = {
    **{f"$.request_spec.{field(option)}": f"--{option}" for option in _SPEC},
    **{f"$.request_spec.flavor.{field(option)}": f"--{option}" for option in FLAVOR},
    **{f"$.request_spec.{name}": option for option, (name, _) in _LISTS.items()},
    "$.request_spec.flavor.extra_specs": "--property",
    "$.request_spec.image.properties": "--image-property",
    "$.request_spec.scheduler_hints": "--hint",
    "$.request_spec.purpose": "--purpose",
    "$.instance_uuid": "--instance",
}


class Weights(Column[Sequence[Mapping[str, Any]]]):
    """A line for each weigher that counts: the weight, and how it was computed."""

    def lines(self) -> Iterable[str]:
        for each in self._value:
            if each["problem"]:
                yield f"{each['weigher']}: {each['problem']}"
            elif each["weight"]:
                made = f"{each['normalized']:g} * {each['multiplier']:g}, of {each['raw']:g}"
                yield f"{each['weigher']}: {each['weight']:g} ({made})"


class Choices(Column[Sequence[Mapping[str, Any]]]):
    """The lines of each instance: its host, and why."""

    def lines(self) -> Iterable[str]:
        for choice in self._value:
            yield f"{choice['host']} for {choice['instance_uuid']}"
            yield f"  claim {choice['operation_id']}"
            yield f"  {choice['why']}"
            for host in choice["compared"]:
                role = "alternate, " if host["host"] in choice["alternates"] else ""
                yield f"  {host['host']}: {role}weight {host['weight']:g}"
                yield from (f"    {line}" for line in Weights(host["weights"]).lines())


class RefusedHosts(Column[Sequence[Mapping[str, Any]]]):
    """A line for each refused host."""

    def lines(self) -> Iterable[str]:
        for refusal in self._value:
            yield f"{refusal['host']}: {refusal['filter']}: {refusal['message']}"


_DECISION = columns(
    *("uuid", "at", "purpose", "flavor", "instances", "hosts", "refused", "seconds", "choices"),
    *("refusals", "unlisted", "error"),
    at=timestamp,
    refused=KeyValues,
    choices=Choices,
    refusals=RefusedHosts,
)


class ScheduleDecision(Show):
    """Show why the scheduler of this machine selected a host, as it was when it was decided.

    The weights are those of the selected host, of the best of the others, and of the alternates: of
    each weigher the weight, the normalised weight times the multiplier, and what it was made of. A
    weigher that decided alone is named. Decisions are kept in memory: the last 1,000, and fewer
    after requests for many instances.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "decision",
            metavar="UUID",
            help="Of the server, of its claim, or of the decision. A server may have several: the"
            " newest one is shown.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        document = self.app.client.read_scheduler("decisions", parsed_args.decision)
        return row(_DECISION, document["decision"])


class ScheduleExplain(List):
    """Show the result of every filter and weigher for every host. Nothing is selected.

    There is a column for each filter that judged: "yes", or why it refuses the host, with
    numbers. The hosts that pass are ranked, best first.
    """

    nouns = "hosts"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_request(parser)
        parser.add_argument(
            "--instance",
            metavar="UUID",
            help="The instance that moves. Its own resources on a host count as free for it.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        arguments = request_of(parsed_args, METHOD, instance_uuid=parsed_args.instance)
        explanation = self.app.client.call_scheduler(
            "explain", arguments["request_spec"], arguments["instance_uuid"]
        )
        for sentence in explanation["unmatched"]:
            self.app.LOG.warning(sentence)
        objecting = (each["filter"] for host in explanation["hosts"] for each in host["objections"])
        filters = tuple(dict.fromkeys((*explanation["filters"], *objecting)))
        rows = [_row(host, filters) for host in explanation["hosts"]]
        return (*FIRST, *filters, *LAST), rows


def _row(host: Mapping[str, Any], filters: tuple[str, ...]) -> tuple[Any, ...]:
    messages: dict[str, list[str]] = {}
    for each in host["objections"]:
        reasons = [reason["message"] for reason in each["reasons"]]
        messages.setdefault(each["filter"], []).extend(reasons or [each["message"]])
    return (
        *(OrEmpty(host[name]) for name in FIRST),
        *(Lines(messages.get(name, [PASSES])) for name in filters),
        OrEmpty(host["weight"]),
        Weights(host["weights"]),
    )


def add_request(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a request."""
    group = parser.add_argument_group(
        "request", "either a file, or --vcpus, --memory and further options"
    )
    group.add_argument(
        "--request",
        metavar="FILE",
        help="A JSON document: a request spec, as described by `rtagent schema show --topic"
        " scheduler explain`; - is standard input.",
    )
    add_fields(group, {**_SPEC, **FLAVOR})
    add_volume_backed(group)
    for option, text in (
        ("--property", "An extra spec of the flavor; may be repeated."),
        ("--image-property", "A property of the image; may be repeated."),
        ("--hint", "A scheduler hint; may be repeated. Values of one key form a list."),
    ):
        group.add_argument(option, action="append", type=pair, metavar="KEY=VALUE", help=text)
    for option, (_, text) in _LISTS.items():
        group.add_argument(option, action="append", metavar="HOST", help=text)
    group.add_argument(
        "--purpose",
        choices=get_args(Purpose),
        help="The operation for which a host is searched. Default: build.",
    )


def request_of(args: argparse.Namespace, method: str, **others: Any) -> dict[str, Any]:
    """Return the arguments of a call, as in the schema. :param others: that are no request spec.

    :raises InvalidRequest: names each invalid option, or each path of the file.
    """
    from rtagent.rpc.methods import SCHEDULER_API

    spec, paths = _from_options(args), _PATHS
    if args.request is not None:
        if spec != NO_OPTIONS:
            rule = "cannot be combined with options: put everything into the file"
            raise InvalidRequest.at(method, "--request", rule)
        spec, paths = read_document(args.request, method), {"$.instance_uuid": "--instance"}
    document = {"request_spec": spec, **others}
    check_options(SCHEDULER_API.methods[method], document, paths)
    return document


def has_request(args: argparse.Namespace) -> bool:
    """Return whether the options describe a request."""
    return args.request is not None or _from_options(args) != NO_OPTIONS


def _from_options(args: argparse.Namespace) -> dict[str, Any]:
    extra_specs = mapping("extra_specs", "--property", args.property, METHOD)
    spec: dict[str, Any] = {
        **fields(args, _SPEC),
        "flavor": {**fields(args, FLAVOR), **extra_specs},
        **{
            name: values
            for option, (name, _) in _LISTS.items()
            if (values := getattr(args, option[2:].replace("-", "_")))
        },
    }
    if image := mapping("properties", "--image-property", args.image_property, METHOD):
        spec["image"] = image
    if args.hint:
        spec["scheduler_hints"] = hints(args.hint)
    if args.purpose is not None:
        spec["purpose"] = args.purpose
    if args.volume_backed:
        spec["is_bfv"] = True
    return spec
