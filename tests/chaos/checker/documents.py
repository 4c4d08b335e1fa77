"""What a claim's document assigns: units, pages and quantities."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

Document = Mapping[str, Any]
#: Kind and name, as in the rows of the database.
Unit = tuple[str, str]

KIB_IN_MIB = 1024
MB_IN_GB = 1024


def units(claim: Document) -> frozenset[Unit]:
    """Return the units that no other owner may have."""
    return frozenset(_units(claim))


def _units(claim: Document) -> Iterator[Unit]:
    for cell in cells(claim):
        for cpu in taken(cell):
            yield "PCPU", str(cpu)
    for device in claim.get("pci") or ():
        yield "PCI", device["address"]
    for resource in claim.get("resources") or ():
        yield "RESOURCE", resource["identifier"]


def cells(claim: Document) -> list[Document]:
    """Return the guest cells; the id of each is that of its host cell."""
    return list((claim.get("numa_topology") or {}).get("cells") or ())


def taken(cell: Document) -> set[int]:
    """Return the host CPUs of a guest cell that no other guest may use."""
    pinned = (cell.get("cpu_pinning") or {}).values()
    return {*pinned, *(cell.get("cpuset_reserved") or ()), *(cell.get("cpuset_kept") or ())}


def quantities(claim: Document) -> Counter[str]:
    """Return what the claim uses of each resource; pages by host cell and size in KiB."""
    found = Counter(
        VCPU=claim["vcpus"],
        PCPU=claim.get("pcpus", 0),
        MEMORY_MB=claim["memory_mb"],
        DISK_MB=claim["disk_mb"],
    )
    for cell in cells(claim):
        if (size := cell.get("pagesize")) is not None:
            found[pool(cell["id"], size)] += cell["memory"] * KIB_IN_MIB // size
    return found


def pool(cell: int, size: int) -> str:
    """Return the name of the pages of a size on a host cell."""
    return f"pages of {size} KiB on cell {cell}"


def capacities(node: Document) -> dict[str, int]:
    """Return what claims may use of each resource, from a node's document."""
    found = {
        name: node["inventories"][kind]["claimable"]
        for name, kind in (
            ("VCPU", "VCPU"),
            ("PCPU", "PCPU"),
            ("MEMORY_MB", "MEMORY_MB"),
            ("DISK_MB", "DISK_GB"),
        )
        if kind in node.get("inventories", {})
    }
    cells = (node.get("numa_topology") or {}).get("cells") or ()
    if (
        not found and cells and "cpu_allocation_ratio" in node
    ):  # of get_node: without what is reserved
        dedicated = sum(len(cell["pcpuset"]) for cell in cells)
        found["VCPU"] = int((node["vcpus"] - dedicated) * node["cpu_allocation_ratio"])
    for cell in cells:
        for pages in cell.get("mempages") or ():
            name = pool(cell["id"], pages["size_kb"])
            found[name] = pages["total"] - pages.get("reserved", 0)
    return found


def node_of(document: Any) -> Document:
    """Return the node of a document of the read API, or of ``get_node``."""
    if isinstance(document, Mapping):
        if document.get("nodes"):
            document = document["nodes"][0]
        document = document.get("node", document)
    return document if isinstance(document, Mapping) else {}


def lease(claim: Document) -> float | None:
    """Return the seconds of a claim's lease; None: it has none."""
    if not claim.get("expires_at") or not claim.get("updated_at"):
        return None
    since, until = (datetime.fromisoformat(claim[each]) for each in ("updated_at", "expires_at"))
    return (until - since).total_seconds()
