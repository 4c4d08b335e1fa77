"""rtagent aggregate: host aggregates, which are in the database of the schedulers."""

import argparse
import uuid
from collections.abc import Sequence

from rtagent.cmd.base import Action, List, Row, Rows, Show, columns, row, rows, with_dry_run
from rtagent.cmd.claim_request import pair
from rtagent.cmd.output import KeyValues, Lines
from rtagent.errors import InvalidRequest
from rtagent.scheduler.aggregate_rules import ZONE
from rtagent.scheduler.errors import AggregateConflict, AggregateNotFound

_COLUMNS = columns("name", "uuid", "metadata", "hosts", metadata=KeyValues, hosts=Lines)


class AggregateList(List):
    """List the aggregates, with their metadata and hosts."""

    nouns = "aggregates"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        aggregates = self.app.client.call_scheduler("get_aggregates")["aggregates"]
        return rows(_COLUMNS, aggregates)


class AggregateCreate(Show):
    """Create an aggregate without hosts."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", help="The name of the aggregate.")
        _add_metadata(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        aggregate = self.app.client.call_scheduler(
            "create_aggregate", str(uuid.uuid4()), parsed_args.name, _metadata(parsed_args)
        )
        return row(_COLUMNS, aggregate)


class AggregateSet(Show):
    """Change the name and the metadata of an aggregate. Other fields and keys stay."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _with_aggregate(parser)
        parser.add_argument("--name", help="The new name.")
        _add_metadata(parser)
        parser.add_argument(
            "--unset",
            metavar="KEY",
            action="append",
            default=[],
            help="Remove this key of the metadata. May be repeated.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        metadata: dict[str, str | None] = {**_metadata(parsed_args)}
        for key in parsed_args.unset:
            if key in metadata:
                raise InvalidRequest.at(
                    "aggregate", f"--unset {key}", "is set by another option: leave one of them out"
                )
            metadata[key] = None
        if not metadata and parsed_args.name is None:
            raise InvalidRequest.at(
                "aggregate", "aggregate", "changes nothing: use --name, --property or --unset"
            )
        aggregate = self.app.client.call_scheduler(
            "set_aggregate", parsed_args.aggregate, name=parsed_args.name, metadata=metadata
        )
        return row(_COLUMNS, aggregate)


class AggregateAddHost(Show):
    """Add a host to an aggregate. The host need not have an agent yet."""

    method = "add_host_to_aggregate"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _with_aggregate(parser)
        parser.add_argument("host", help="The name of the service host.")

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        aggregate = self.app.client.call_scheduler(
            self.method, parsed_args.aggregate, parsed_args.host
        )
        return row(_COLUMNS, aggregate)


class AggregateRemoveHost(AggregateAddHost):
    """Remove a host from an aggregate. Its instances stay."""

    method = "remove_host_from_aggregate"


class AggregateDelete(Action):
    """Delete an aggregate that has no hosts."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _with_aggregate(parser)
        with_dry_run(parser, "delete")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.dry_run:
            self._test(parsed_args.aggregate)
            return
        deleted = self.app.client.call_scheduler("delete_aggregate", parsed_args.aggregate)
        self.app.LOG.info("aggregate %s (%s) is deleted", deleted["name"], deleted["uuid"])

    def _test(self, name: str) -> None:
        """Log what would be deleted. :raises AggregateNotFound: AggregateConflict:"""
        aggregates = self.app.client.call_scheduler("get_aggregates")["aggregates"]
        found = next((each for each in aggregates if name in (each["uuid"], each["name"])), None)
        if found is None:
            raise AggregateNotFound(aggregate=name)
        if found["hosts"]:
            raise AggregateConflict(f"aggregate {name} has hosts: {', '.join(found['hosts'])}")
        self.app.LOG.info("aggregate %s (%s) would be deleted", found["name"], found["uuid"])


def _with_aggregate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("aggregate", help="The name or the uuid of the aggregate.")


def _add_metadata(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--zone", help=f"The availability zone: the metadata {ZONE}.")
    parser.add_argument(
        "--property",
        metavar="KEY=VALUE",
        type=pair,
        action="append",
        default=[],
        help="A key of the metadata. May be repeated.",
    )


def _metadata(args: argparse.Namespace) -> dict[str, str]:
    pairs: Sequence[tuple[str, str]] = args.property
    if args.zone is not None:
        pairs = [*pairs, (ZONE, args.zone)]
    metadata = dict(pairs)
    if len(metadata) < len(pairs):
        raise InvalidRequest.at("aggregate", "--property", "has a key twice")
    return metadata
