"""Held twice: at no moment has a unit two owners, or a resource more users than its capacity."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.chaos.checker import documents
from tests.chaos.checker.claims import Claim, Claims
from tests.chaos.checker.documents import Document, Unit
from tests.chaos.checker.run import Run, Violation, rows

PROMISE = "P6, a unit is held by one owner at a time"
CAPACITY = "P6, claims stay within the capacity"
#: Limits of a request, by the resource that they limit.
LIMITS = {"vcpu": "VCPU", "memory_mb": "MEMORY_MB", "disk_gb": "DISK_MB"}


@dataclass(frozen=True)
class Held:
    """A claim that is certainly held from one moment to another."""

    claim: Claim
    begin: float
    end: float


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield units and capacities that acknowledged or observed claims use twice."""
    for host, its in claims.by_host.items():
        held = [
            Held(claim, claim.held_from, claim.held_until)
            for claim in its.values()
            if claim.granted and claim.held_from < claim.held_until
        ]
        yield from _twice(host, held)
        yield from _beyond(host, held, _capacities(run, host, its.values()))
    for period in run.periods:
        for host, observed in period.of("claims"):
            found = rows(observed.document, "claims")
            capacities = _capacities(run, host, claims.by_host[host].values())
            yield from _observed(host, found, capacities, (period.line, observed.line))


def _twice(host: str, held: Iterable[Held]) -> Iterator[Violation]:
    """Yield units that two owners held at the same time."""
    users: dict[Unit, list[Held]] = defaultdict(list)
    for each in held:
        for unit in documents.units(each.claim.document):
            users[unit].append(each)
    for (kind, name), found in users.items():
        found.sort(key=lambda each: each.begin)
        last: dict[str, Held] = {}  # by owner, the one that ends last
        for each in found:
            last = {owner: other for owner, other in last.items() if other.end > each.begin}
            for owner, other in last.items():
                if owner != each.claim.owner:
                    message = (
                        f"{host}: {kind} {name} was held by claim {other.claim.uuid} and by claim"
                        f" {each.claim.uuid} of another owner at the same time"
                    )
                    yield Violation(PROMISE, message, (*other.claim.lines, *each.claim.lines))
            before = last.get(each.claim.owner)
            if before is None or each.end > before.end:
                last[each.claim.owner] = each


def _beyond(host: str, held: Iterable[Held], capacities: Mapping[str, int]) -> Iterator[Violation]:
    """Yield the first moment at which each resource was used beyond its capacity."""
    moments: list[tuple[float, int, Held]] = []
    for each in held:
        moments += [(each.begin, 1, each), (each.end, 0, each)]
    used: Counter[str] = Counter()
    reported: set[str] = set()
    for _, begins, each in sorted(moments, key=lambda moment: moment[:2]):
        for name, quantity in documents.quantities(each.claim.document).items():
            used[name] += quantity if begins else -quantity
            over = begins and used[name] > capacities.get(name, used[name])
            if over and quantity and name not in reported:
                reported.add(name)
                message = f"{host}: {used[name]} of {capacities[name]} {name} were held"
                message += f" when claim {each.claim.uuid} was granted"
                yield Violation(CAPACITY, message, each.claim.lines)


def _observed(
    host: str, found: Iterable[Document], capacities: Mapping[str, int], lines: tuple[int, ...]
) -> Iterator[Violation]:
    owners: dict[Unit, Document] = {}
    used: Counter[str] = Counter()
    for claim in found:
        used.update(documents.quantities(claim))
        for unit in sorted(documents.units(claim)):
            other = owners.setdefault(unit, claim)
            if other["owner_id"] != claim["owner_id"]:
                message = f"{host}: {unit[0]} {unit[1]} is in claim {other['uuid']} and in claim"
                message += f" {claim['uuid']} of another owner"
                yield Violation(PROMISE, message, lines)
    for name, quantity in used.items():
        if quantity > capacities.get(name, quantity):
            message = f"{host}: {quantity} of {capacities[name]} {name} are held"
            yield Violation(CAPACITY, message, lines)


def _capacities(run: Run, host: str, claims: Iterable[Claim]) -> dict[str, int]:
    """Return the largest capacities that were observed, or that a request named as its limits."""
    found: dict[str, int] = {}
    nodes = [
        period.observed["node", host].document
        for period in run.periods
        if ("node", host) in period.observed
    ]
    nodes += [
        call.reply
        for call in run.calls.values()
        if call.ok and call.method == "get_node" and call.host == host
    ]
    for node in nodes:
        for name, number in documents.capacities(documents.node_of(node)).items():
            found[name] = max(number, found.get(name, number))
    for claim in claims:
        for call in claim.creating:
            for limit, name in LIMITS.items():
                value = (call.arguments.get("limits") or {}).get(limit)
                if value is not None and name in found:
                    factor = documents.MB_IN_GB if limit == "disk_gb" else 1
                    found[name] = max(found[name], int(value * factor))
    return found
