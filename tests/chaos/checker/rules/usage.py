"""Usage: the node's usage is the sum of its claims and of the domains without a claim."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.chaos.checker import documents
from tests.chaos.checker.claims import Claims
from tests.chaos.checker.documents import Document
from tests.chaos.checker.run import Period, Run, Violation, rows

PROMISE = "Usage is the sum of claims and domains"
ROWS = "P6, the rows of units are those of the claims"
#: Kinds of rows that are compared. The others record quantities.
KINDS = frozenset({"PCPU", "PCI", "RESOURCE"})


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield differences between what was observed of a host at one time."""
    for period in run.periods:
        for host, observed in period.of("claims"):
            found = rows(observed.document, "claims")
            for name, message in (*_usage(period, host, found), *_units(period, host, found)):
                lines = (period.line, observed.line, period.observed[name, host].line)
                yield Violation(ROWS if name == "units" else PROMISE, f"{host}: {message}", lines)


def _usage(period: Period, host: str, found: list[Document]) -> Iterator[tuple[str, str]]:
    if ("node", host) not in period.observed:
        return
    node = documents.node_of(period.observed["node", host].document)
    inventories: Mapping[str, Any] = node.get("inventories") or {}
    seen = period.observed.get(("domains", host))
    foreign = domains_of(seen.document) if seen else None
    low, high = _bounds(found, foreign, drifts=node.get("drifts", 1) > 0)
    unknown = foreign is None and node.get("orphans", 1)
    for kind, inventory in inventories.items():
        name = "DISK_MB" if kind == "DISK_GB" else kind
        used = inventory["used"]
        if used < low[name] or (not unknown and used > high[name]):
            wanted = low[name] if low[name] == high[name] else f"{low[name]} or more"
            yield "node", f"{used} {name} are used, the sum is {wanted}"
    if not any(node.get(each, 1) for each in ("orphans", "drifts")):
        yield from _cells(node, found)


def domains_of(document: Any) -> dict[str, Document]:
    """Return the running domains by uuid."""
    return {
        str(each.get("uuid") or each.get("domain_uuid")): each
        for each in rows(document, "domains")
        if each.get("active", True)
    }


def _bounds(
    found: Iterable[Document], domains: Mapping[str, Document] | None, *, drifts: bool
) -> tuple[Counter[str], Counter[str]]:
    """Return what is used at least and at most.

    A domain that differs from its claim counts as the larger of the two. vCPUs and the emulator of
    a domain without a claim may be pinned to dedicated CPUs.
    """
    by_owner: dict[str, Counter[str]] = defaultdict(Counter)
    for claim in found:
        by_owner[claim["owner_id"]].update(documents.quantities(claim))
    low, high = Counter[str](), Counter[str]()
    for owner in {*by_owner, *(domains or {})}:
        claimed, domain = by_owner.get(owner, Counter()), (domains or {}).get(owner)
        seen: Counter[str] = Counter()
        if domain is not None and (drifts or not claimed):
            seen = Counter(VCPU=domain["vcpus"], MEMORY_MB=domain["memory_mb"])
        pins = len(domain.get("cpusets", ())) if domain is not None and seen else 0
        low.update(claimed if claimed else seen - Counter(VCPU=pins))
        high.update(claimed | seen)
        high["PCPU"] += pins + bool(pins)
    return low, high


def _cells(node: Document, found: Iterable[Document]) -> Iterator[tuple[str, str]]:
    """Compare the cells; only valid if every domain has its claim."""
    pinned: set[int] = set()
    shared: Counter[int] = Counter()
    pages: Counter[str] = Counter()
    for claim in found:
        for cell in documents.cells(claim):
            pinned |= documents.taken(cell)
            shared[cell["id"]] += len(cell.get("cpuset") or ())
        pages.update(documents.quantities(claim))
    cells = (node.get("numa_topology") or {}).get("cells") or ()
    listed = {cpu for cell in cells for cpu in cell["pinned_cpus"]}
    if cells and listed != pinned:
        yield "node", f"CPUs {sorted(listed)} are pinned, the claims have {sorted(pinned)}"
    for cell in cells:
        if cell["cpu_usage"] != shared[cell["id"]]:
            wanted = shared[cell["id"]]
            yield "node", f"cell {cell['id']} uses {cell['cpu_usage']} vCPUs, the sum is {wanted}"
        sizes = [each["size_kb"] for each in cell["mempages"]]
        for each in cell["mempages"]:
            name = documents.pool(cell["id"], each["size_kb"])
            # Plain memory consists of the smallest pages.
            if each["size_kb"] != min(sizes) and each["used"] != pages[name]:
                yield "node", f"{each['used']} {name} are used, the sum is {pages[name]}"


def _units(period: Period, host: str, found: Iterable[Document]) -> Iterator[tuple[str, str]]:
    if ("units", host) not in period.observed:
        return
    stored = {
        (row["kind"], row["unit"], row["owner_id"])
        for row in rows(period.observed["units", host].document, "units")
        if row["kind"] in KINDS
    }
    wanted = {(*unit, claim["owner_id"]) for claim in found for unit in documents.units(claim)}
    for kind, unit, owner in sorted(stored - wanted):
        yield "units", f"the row {kind} {unit} of owner {owner} has no claim"
    for kind, unit, owner in sorted(wanted - stored):
        yield "units", f"{kind} {unit} of owner {owner} has no row"
