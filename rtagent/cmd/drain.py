"""rtagent node drain and undrain: empty a host for maintenance."""

import argparse
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from rtagent.cmd.base import Action, List, Rows
from rtagent.cmd.output import OrEmpty, timestamp
from rtagent.errors import InvalidRequest

COLUMNS = ("instance", "name", "what", "state", "vcpus", "memory_mb")
LONG_COLUMNS = (*COLUMNS, "claim", "suspect", "node")

_DURATION = re.compile(r"([0-9]{1,5})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class NodeDrain(List):
    """Create no claims on the host from now on, and list what remains on it.

    Calls that create claims are refused with NodeDraining, and the scheduler selects other hosts.
    Guests run on. They can be migrated to other hosts, stopped and deleted.
    `rtagent node undrain` ends the drain; a restart does not.
    """

    nouns = "claims or domains on the node"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--reason", help="The reason, which callers and operators see.")
        parser.add_argument(
            "--deadline",
            type=deadline,
            metavar="TIME",
            help="When the host should be empty: a time as 2030-01-31T18:00Z, or from now: 30m, 2h,"
            " 1d. It is shown only; nothing is stopped then.",
        )
        parser.add_argument(
            "--status", action="store_true", help="Change nothing; list what remains."
        )
        parser.add_argument(
            "--long", action="store_true", help="List claims, why they are suspect, and the node."
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        client = self.app.client
        if parsed_args.status:
            if parsed_args.reason is not None or parsed_args.deadline is not None:
                rule = "changes nothing: leave out --reason and --deadline"
                raise InvalidRequest.at("node drain", "--status", rule)
        else:
            until = parsed_args.deadline
            client.call(
                "drain_node",
                parsed_args.reason or "",
                deadline=f"{until:%Y-%m-%dT%H:%M:%SZ}" if until else None,
            )
        found = client.read("drains")["drains"]
        for each in found:
            self.app.LOG.info("%s", sentence(each, datetime.now(UTC)))
        columns = LONG_COLUMNS if parsed_args.long else COLUMNS
        return columns, [row[: len(columns)] for each in found for row in rows(each)]


class NodeUndrain(Action):
    """Create claims on the host again."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        reply = self.app.client.call("undrain_node")
        self.app.LOG.info("%s creates claims: it is not being drained any more", reply["node"])


def deadline(text: str) -> datetime:
    """Return the time that a text names, by the clock of this machine."""
    if found := _DURATION.fullmatch(text):
        return datetime.now(UTC).replace(microsecond=0) + timedelta(
            **{_UNITS[found[2]]: int(found[1])}
        )
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is not None:
            return at.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(
        f"{text!r} is not a time with a zone, as 2030-01-31T18:00Z, nor a time from now, as 2h"
    )


def sentence(found: Mapping[str, Any], now: datetime) -> str:
    """Return what the document of a drain says."""
    node, drain = found["node"], found["drain"]
    if drain is None:
        return f"{node} is not being drained"
    claims, orphans = len(found["claims"]), len(found["orphans"])
    reason = f": {drain['reason']}" if drain["reason"] else ""
    until = ""
    if drain["deadline"]:
        late = datetime.fromisoformat(drain["deadline"]) < now
        until = f", until {_time(drain['deadline'])}{', which has passed' if late else ''}"
    return (
        f"{node} is being drained since {_time(drain['since'])}{until}{reason};"
        f" {_number(claims, 'claim')} and {_number(orphans, 'domain')} without a claim remain"
    )


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _time(text: str) -> str:
    return str(timestamp(text).machine_readable())


def rows(found: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of `LONG_COLUMNS` for each claim, and each domain without one."""
    node = found["node"]
    for claim in found["claims"]:
        state = f"{claim['state']}, suspect" if claim["suspect"] else claim["state"]
        yield (
            *(claim["owner_id"], OrEmpty(claim["display_name"]), "claim", state),
            *(claim["vcpus"], claim["memory_mb"]),
            *(claim["uuid"], OrEmpty(claim["suspect"]), node),
        )
    for orphan in found["orphans"]:
        state = "running" if orphan["active"] else "shut off"
        yield (
            *(orphan["domain_uuid"], orphan["name"], "domain", state),
            *(orphan["vcpus"], orphan["memory_mb"]),
            *(OrEmpty(None), OrEmpty(None), node),
        )
