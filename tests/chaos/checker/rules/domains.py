"""Domains: each runs on one host, as its caller left it, and has its devices for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from tests.chaos.checker.claims import Claims
from tests.chaos.checker.documents import Document
from tests.chaos.checker.rules.usage import domains_of
from tests.chaos.checker.run import DomainAction, Period, Run, rows
from tests.chaos.checker.violation import Violation

PROMISE = "P1, no domain is lost or runs twice"
DEVICES = "P6, a device is in one domain at a time"
#: Fields of a domain that no other domain may share an entry of.
EXCLUSIVE = ("devices", "mdevs")


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield domains that are not what callers and claims made of them."""
    for period in run.periods:
        yield from _left(period, run.domain_actions)
        yield from _on_two_hosts(period)
        yield from _shared(period)


def _left(period: Period, actions: list[DomainAction]) -> Iterator[Violation]:
    """Yield domains that do not run although a caller ran them last, or the reverse.

    Callers are paused in a quiet period, so every action is complete.
    """
    last = {(each.host, each.uuid): each for each in actions if each.line < period.line}
    for host, observed in period.of("domains"):
        seen = domains_of(observed.document)
        for (where, uuid), action in last.items():
            if where != host or action.runs == (uuid in seen):
                continue
            what = f"domain {uuid} of claim {action.claim}" if action.claim else f"domain {uuid}"
            message = "was started, and does not run" if action.runs else "was removed, and runs"
            lines = (action.line, period.line, observed.line)
            yield Violation(PROMISE, f"{host}: {what} {message}", lines)


def _on_two_hosts(period: Period) -> Iterator[Violation]:
    hosts: dict[str, tuple[str, int]] = {}
    for host, observed in period.of("domains"):
        for uuid in domains_of(observed.document):
            other, line = hosts.setdefault(uuid, (host, observed.line))
            if other != host:
                message = f"domain {uuid} runs on {other} and on {host}"
                yield Violation(PROMISE, message, (period.line, line, observed.line))


def _shared(period: Period) -> Iterator[Violation]:
    """Yield devices that two domains have, each of which has a claim."""
    for host, observed in period.of("domains"):
        claims = period.observed.get(("claims", host))
        owners = {each["owner_id"] for each in rows(claims.document, "claims")} if claims else set()
        seen = domains_of(observed.document)
        guests = {uuid: each for uuid, each in sorted(seen.items()) if uuid in owners}
        for one, other in combinations(guests, 2):
            for device in sorted(_devices(guests, one) & _devices(guests, other)):
                message = f"{host}: domains {one} and {other} both have device {device}"
                yield Violation(DEVICES, message, (period.line, observed.line))


def _devices(domains: Mapping[str, Document], uuid: str) -> set[str]:
    return {device for field in EXCLUSIVE for device in domains[uuid].get(field) or ()}
