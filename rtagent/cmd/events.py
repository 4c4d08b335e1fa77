"""rtagent events: what has happened on the node."""

import argparse
import contextlib
import csv
import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rtagent.api.client import EventStream
from rtagent.cmd.base import List, Rows, columns, row, rows
from rtagent.cmd.output import safe, timestamp
from rtagent.errors import AgentUnreachable, InvalidRequest, RtAgentError
from rtagent.model.event import parse_event_id
from rtagent.model.printable import printable

#: Events that are shown by default: the last ones.
NEWEST = 100
#: Seconds for which the agent may take to load its events.
PATIENCE = 10.0

_Event = Mapping[str, Any]


class EventList(List):
    """List the last events of the node, or follow them.

    With --follow, events are printed as they happen, one in a line, until the command is
    interrupted: as text, or in the formats json and csv. It waits for an agent that restarts, and
    continues where it was.
    """

    nouns = "events"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--follow", action="store_true", help="Print events as they happen, one in a line."
        )
        parser.add_argument(
            "--type",
            metavar="TYPE,...",
            help="Only events of these types, such as claim.create, or claim for all of claims.",
        )
        parser.add_argument(
            "--newest",
            metavar="NUMBER",
            type=_number,
            default=NEWEST,
            help="Begin with so many of the last events, of all types. Default: %(default)s.",
        )
        parser.add_argument(
            "--after", metavar="ID", default="", help="Begin after the event with this id."
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        if not parsed_args.follow:
            return super().run(parsed_args)
        self._check(parsed_args)
        with contextlib.suppress(KeyboardInterrupt):
            self._follow(parsed_args)
        return 0

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        self._check(parsed_args)
        stream, found = self._stream(parsed_args), list[_Event]()
        waited_until = time.monotonic() + PATIENCE
        while True:
            received = stream.next(parsed_args.type)
            self._warn(received.gap)
            found += received.events
            if received.complete:
                return rows(_COLUMNS, found)
            if stream.place:
                waited_until = time.monotonic() + PATIENCE
            elif time.monotonic() > waited_until:
                raise RtAgentError("the agent cannot read its events: see its log")
            time.sleep(received.retry)

    def _follow(self, parsed_args: argparse.Namespace) -> None:
        stream, show = self._stream(parsed_args), _shown(parsed_args.formatter)
        waiting, connected = False, False
        while True:
            try:
                received = stream.next(parsed_args.type)
            except AgentUnreachable as error:
                if not connected:
                    raise
                if not waiting:
                    self.app.LOG.warning("waiting for the agent: %s", error.message)
                waiting = True
                time.sleep(1.0)
                continue
            waiting, connected = False, True
            self._warn(received.gap)
            for event in received.events:
                self.app.stdout.write(f"{show(event)}\n")
            self.app.stdout.flush()
            time.sleep(received.retry)

    def _stream(self, parsed_args: argparse.Namespace) -> EventStream:
        read = self.app.client.read_events
        return EventStream(read, place=parsed_args.after, newest=parsed_args.newest)

    def _warn(self, gap: Mapping[str, Any] | None) -> None:
        if gap is None:
            return
        if gap["restored"]:
            self.app.LOG.warning("the database went back in time: its events begin anew")
        if gap["missed"]:
            self.app.LOG.warning("%d events are not kept any more", gap["missed"])

    def _check(self, parsed_args: argparse.Namespace) -> None:
        """:raises InvalidRequest: an argument is wrong, or they contradict each other."""
        if parsed_args.after and parse_event_id(parsed_args.after) is None:
            raise InvalidRequest.at(
                "events", "--after", "must be the id of an event, such as 3-120"
            )
        if parsed_args.follow and self.app.options.offline:
            raise InvalidRequest.at(
                "events", "--offline", "cannot be used with --follow, which needs the agent"
            )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of events")
    return int(text)


def _shown(formatter: str) -> Callable[[_Event], str]:
    """Return the function that prints an event: as a JSON document, a row, or a line of text."""
    if formatter == "json":
        return json.dumps
    return _csv if formatter == "csv" else _line


def _csv(event: _Event) -> str:
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_NONNUMERIC, lineterminator="").writerow(
        safe(cell, "csv") for cell in row(_COLUMNS, event)[1]
    )
    return line.getvalue()


def _line(event: _Event) -> str:
    at = str(event["at"]).partition(".")[0].removesuffix("Z") + "Z"
    words = (event["id"], at, event["event_type"], subject(event), details(event))
    return printable("  ".join(word for word in words if word))


#: The field of a payload that names what the event is about: the first one that it has.
SUBJECTS = ("migration_uuid", "address", "claim_uuid", "audit_cause", "hypervisor_hostname")


def subject(event: _Event) -> str:
    """Return what an event is about: a claim, a move, a device."""
    payload = event["payload"]
    names = ("claim_uuid",) if event["event_type"].startswith("claim.") else SUBJECTS
    return next((str(payload[name]) for name in names if payload.get(name)), event["host"])


def details(event: _Event) -> str:
    """Return a payload in a few words."""
    payload = event["payload"]
    return "; ".join(_details(event["event_type"].partition(".")[0], payload))


_COLUMNS = {
    **columns("id", "at", "type=event_type", at=timestamp),
    "subject": subject,
    "details": details,
}


def _details(family: str, payload: Mapping[str, Any]) -> Iterator[str]:
    match family:
        case "claim" if "reasons" in payload:
            yield from (str(reason.get("message")) for reason in payload["reasons"])
        case "claim":
            yield f"{payload['action']}: {payload['state']}, instance {payload['owner_id']}"
            if payload["reason"]:
                yield payload["reason"]
        case "move":
            yield f"{payload['migration_type']} of {payload['instance_uuid']}: {payload['status']}"
        case "pci_device":
            yield payload["label"]
            if payload["quarantine"]:
                yield payload["quarantine"]
        case "audit":
            yield payload["summary"]
        case "drift":
            observed, claimed = payload["observed"], payload["claimed"]
            yield f"{payload['resource']}: {observed} {payload['unit']} in use, {claimed} claimed"
        case "compute_node":
            # Of a drain: its reason.
            yield ", ".join(payload.get("changed", ())) or payload.get("reason", "")
        case "service":
            yield "disabled" if payload["disabled"] else "enabled"
            if payload["disabled_reason"]:
                yield payload["disabled_reason"]
        case _:
            yield f"{len(payload.get('metrics', ()))} metrics"
