"""Domains: each runs on one host, as its caller left it, and has its devices for itself.

A host that loses power, or reboots, ends its domains: none of them runs until a caller starts it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import inf

from tests.chaos.checker.claims import Claims
from tests.chaos.checker.documents import Document
from tests.chaos.checker.rules.usage import domains_of
from tests.chaos.checker.run import DomainAction, Period, Run, Violation, rows

PROMISE = "P1, no domain is lost or runs twice"
DEVICES = "P6, a device is in one domain at a time"
#: The detail ``lenient`` of a fault that ends the domains of its target.
POWERLESS = "powerless"
#: Seconds by which an action may be recorded later than it was done.
DELAY = 5.0
#: Fields of a domain that no other domain may share an entry of.
EXCLUSIVE = ("devices", "mdevs")


@dataclass(frozen=True)
class Outage:
    """The domains of a host were ended at some time between two moments."""

    begin: float
    end: float


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield domains that are not what callers and claims made of them."""
    outages = _outages(run)
    for period in run.periods:
        yield from _left(period, run.domain_actions, outages)
        yield from _on_two_hosts(period)
        yield from _shared(period)


def _left(
    period: Period, actions: list[DomainAction], outages: Mapping[str, list[Outage]]
) -> Iterator[Violation]:
    """Yield domains that do not run although a caller ran them last, or the reverse.

    Callers are paused in a quiet period, so every action is complete.
    """
    last = {(each.host, each.uuid): each for each in actions if each.line < period.line}
    for host, observed in period.of("domains"):
        seen = domains_of(observed.document)
        before = [each for each in outages.get(host, ()) if each.begin < period.t]
        for (where, uuid), action in last.items():
            message = _wrong(action, uuid in seen, before) if where == host else ""
            if not message:
                continue
            what = f"domain {uuid} of claim {action.claim}" if action.claim else f"domain {uuid}"
            lines = (action.line, period.line, observed.line)
            yield Violation(PROMISE, f"{host}: {what} {message}", lines)


def _wrong(action: DomainAction, runs: bool, outages: Iterable[Outage]) -> str:
    """Return what is wrong with a domain after the last action of its caller, or "".

    :param runs: whether it was seen. :param outages: of its host.
    """
    if not action.runs:
        return "was removed, and runs" if runs else ""
    if any(action.t <= each.begin for each in outages):
        return "was ended with its host, and runs" if runs else ""
    # It may have been started before the domains were ended.
    if runs or any(action.t <= each.end + DELAY for each in outages):
        return ""
    return "was started, and does not run"


def _outages(run: Run) -> Mapping[str, list[Outage]]:
    """Return by host when its domains were ended."""
    found: dict[str, list[Outage]] = defaultdict(list)
    for fault in run.faults:
        if fault.details.get("lenient") != POWERLESS:
            continue
        its = found[fault.target]
        if fault.state == "begin":
            its.append(Outage(fault.details.get("since", fault.t), inf))
        elif its:
            its[-1] = Outage(its[-1].begin, fault.t)
    return found


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
