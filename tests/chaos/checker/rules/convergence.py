"""Convergence: in a quiet period Placement and the scheduler's view agree with the agent."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.chaos.checker import documents
from tests.chaos.checker.claims import Claims
from tests.chaos.checker.documents import Document
from tests.chaos.checker.rules.usage import domains_of
from tests.chaos.checker.run import Period, Run, Violation, rows

PLACEMENT = "Placement converges"
SCHEDULER = "The scheduler's view converges"
HEALTH = "The agent recovers"
#: Fields of the scheduler's view that are those of the node.
VIEW = ("vcpus_used", "free_ram_mb")
#: The quantities of a claim that are allocated on the root provider.
ROOT = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield what has not converged."""
    for period in run.periods:
        for host, observed in period.of("node"):
            node = documents.node_of(observed.document)
            seen = period.observed.get(("claims", host))
            found = rows(seen.document, "claims") if seen else []
            providers = _providers(period, host)
            messages: list[str] = []
            if providers is not None:
                lost = _lost(period, host, found) if host in claims.restored else set[str]()
                messages += _placement(providers, node, found, lost)
                messages += _devices(providers, node["uuid"], found, lost)
                messages += _reserves(providers.get(node["uuid"], {}))
            for message in messages:
                lines = (period.line, observed.line, period.observed["placement", host].line)
                yield Violation(PLACEMENT, f"{host}: {message}", lines)
            for scheduler, views in period.of("scheduler"):
                for message in _view(views.document, host, node):
                    lines = (period.line, observed.line, views.line)
                    yield Violation(SCHEDULER, f"{scheduler}: {message}", lines)
        for host, observed in period.of("health"):
            if isinstance(observed.document, Mapping) and observed.document.get("status") == "fail":
                failing = ", ".join(_failing(observed.document)) or "no part is named"
                yield Violation(HEALTH, f"{host}: its health fails ({failing})", (observed.line,))


def _providers(period: Period, host: str) -> Mapping[str, Any] | None:
    """Return the providers of a host in Placement, by uuid; None if they were not read."""
    found = period.observed.get(("placement", host))
    return found.document if found and isinstance(found.document, Mapping) else None


def _lost(period: Period, host: str, found: Iterable[Document]) -> set[str]:
    """Return the running guests whose claims were lost with an older copy of the database. Until
    they end, they keep their allocations.
    """
    seen = period.observed.get(("domains", host))
    owners = {claim["owner_id"] for claim in found}
    return domains_of(seen.document).keys() - owners if seen else set()


def _failing(health: Document) -> Iterator[str]:
    for name, parts in (health.get("checks") or {}).items():
        if any(part.get("status") == "fail" for part in parts if isinstance(part, Mapping)):
            yield name


def _placement(
    providers: Mapping[str, Any], node: Document, found: Iterable[Document], lost: set[str]
) -> Iterator[str]:
    """Compare the root provider of a node: allocations with claims, inventories with capacity."""
    root = providers.get(node["uuid"], {})
    stored = {name: each["resources"] for name, each in (root.get("allocations") or {}).items()}
    wanted = _wanted(found)
    for consumer in sorted({*wanted, *stored} - lost):
        its, ours = Counter(stored.get(consumer, {})), wanted.get(consumer, Counter())
        if consumer in wanted and not ours:
            continue  # its flavor says what it uses
        if +Counter({name: its[name] for name in ROOT}) != +ours:
            yield f"consumer {consumer} has {dict(+its)} in Placement, its claims {dict(+ours)}"
    inventories = root.get("inventories") or {}
    for kind, inventory in (node.get("inventories") or {}).items():
        total = inventory["total"] // (documents.MB_IN_GB if kind == "DISK_GB" else 1)
        there = inventories.get(kind, {}).get("total", 0)
        if there != total:
            yield f"Placement has an inventory of {there} {kind}, the node {total}"


def _reserves(root: Mapping[str, Any]) -> Iterator[str]:
    """Check that what is reserved leaves enough for everything that is allocated."""
    used = Counter[str]()
    for each in (root.get("allocations") or {}).values():
        used.update(each["resources"])
    for kind, inventory in (root.get("inventories") or {}).items():
        reserved = inventory.get("reserved", 0)
        left = (inventory["total"] - reserved) * inventory.get("allocation_ratio", 1.0)
        if reserved and used[kind] > left:
            yield f"{reserved} {kind} are reserved, which leaves {left:g} for {used[kind]}"


def _devices(
    providers: Mapping[str, Any], root: str, found: Iterable[Document], lost: set[str]
) -> Iterator[str]:
    """Compare the providers of devices, which are below the root, with the claims' resources."""
    wanted = Counter(
        (consumer, each["provider"], each["resource_class"])
        for consumer, claim in _consumers(found)
        for each in claim.get("resources") or ()
        if each.get("provider")
    )
    stored = Counter(
        {
            (consumer, uuid, name): number
            for uuid, provider in providers.items()
            for consumer, each in (provider.get("allocations") or {}).items()
            for name, number in each["resources"].items()
            if uuid != root and consumer not in lost
        }
    )
    for consumer, uuid, name in sorted({*wanted, *stored}):
        its, ours = (counter[consumer, uuid, name] for counter in (stored, wanted))
        if its != ours:
            where = f"of provider {providers.get(uuid, {}).get('name', uuid)}"
            yield f"consumer {consumer} has {its} {name} {where} in Placement, its claims {ours}"


def _consumers(found: Iterable[Document]) -> Iterator[tuple[str, Document]]:
    """Yield each claim for a guest, with its consumer in Placement."""
    mains: dict[str, list[Document]] = defaultdict(list)
    for claim in sorted(found, key=lambda each: (each["created_at"], each["uuid"])):
        if claim["kind"] != "attach":
            mains[claim["owner_id"]].append(claim)
    for owner, claims in mains.items():
        for claim in claims:
            yield _consumer(owner, claim, claims), claim


def _wanted(found: Iterable[Document]) -> dict[str, Counter[str]]:
    """Return the quantities by consumer; none for a consumer whose flavor overrides them."""
    wanted: dict[str, Counter[str]] = defaultdict(Counter)
    overridden: set[str] = set()
    for consumer, claim in _consumers(found):
        used = documents.quantities(claim)
        used["DISK_GB"] = -(-used["DISK_MB"] // documents.MB_IN_GB)
        wanted[consumer].update({name: used[name] for name in ROOT})
        specs = (claim.get("flavor") or {}).get("extra_specs") or {}
        if any(f"resources:{name}" in specs for name in ROOT):
            overridden.add(consumer)
    return {name: Counter() if name in overridden else +used for name, used in wanted.items()}


def _consumer(owner: str, claim: Document, mains: list[Document]) -> str:
    """Return the consumer of a claim: at the source of a move it is the migration."""
    moves = ("resize", "migration", "live-migration")
    if claim["state"] == "outgoing":
        return claim.get("migration_uuid") or owner
    if len(mains) > 1 and claim is mains[0] and mains[1]["kind"] in moves:
        return mains[1].get("migration_uuid") or owner
    return owner


def _view(views: Any, host: str, node: Document) -> Iterator[str]:
    """Compare what a scheduler knows of a host. :param views: documents by host."""
    view = views.get(host) if isinstance(views, Mapping) else None
    view = view.get("host", view) if isinstance(view, Mapping) else None
    if not isinstance(view, Mapping):
        yield f"it does not know {host}"
        return
    for name in VIEW:
        if view.get(name) != node.get(name):
            yield f"it has {name} {view.get(name)} of {host}, the node {node.get(name)}"
