"""Nova's established sentences for refusals, which its callers and its operators look for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rtagent.model.decision import ReasonCode

NUMA = "Requested instance NUMA topology cannot fit the given host NUMA topology"
NUMA_WITH_DEVICES = (
    "Requested instance NUMA topology together with requested PCI devices cannot fit the given"
    " host NUMA topology"
)
DEVICES = "Claim pci failed"
PAGE_SIZE = "Requested page size is different from current page size."

#: Resources of a host as a whole, which may be short without regard to its cells.
_AMOUNTS = frozenset({"VCPU", "MEMORY_MB", "DISK_GB"})
#: Resources that only the fit to the host's cells needs.
_OF_CELLS = frozenset({"PCPU", "NUMA_CELL", "emulator threads"})


def nova_reason(reasons: Sequence[Mapping[str, Any]], *, live_migration: bool = False) -> str:
    """Return Nova's sentence for a refusal, followed by what is requested and available.

    It is the ``reason`` of Nova's ``ComputeResourcesUnavailable``, which puts "Insufficient compute
    resources: " before it. Without a sentence of Nova's, it is the numbers alone.

    :param reasons: ``kwargs["reasons"]`` of `ComputeResourcesUnavailable`.
    :param live_migration: the guest keeps the page sizes that it has at its source.
    """
    numbers = "; ".join(str(each["message"]) for each in reasons)
    sentence = _sentence(reasons, live_migration)
    if not sentence:
        return numbers
    return f"{sentence} {numbers}" if sentence.endswith(".") else f"{sentence}: {numbers}"


def _sentence(reasons: Sequence[Mapping[str, Any]], live_migration: bool) -> str:
    devices = [each for each in reasons if str(each["resource"]).startswith("PCI ")]
    if live_migration and any(map(_is_of_pages, reasons)):
        return PAGE_SIZE
    if any(map(_is_of_cells, reasons)):
        return NUMA_WITH_DEVICES if devices else NUMA
    if any(" cells " in each["where"] for each in devices):  # elsewhere there are enough
        return NUMA_WITH_DEVICES
    return DEVICES if devices else ""


def _is_of_pages(reason: Mapping[str, Any]) -> bool:
    return str(reason["resource"]).endswith(" pages")


def _is_of_cells(reason: Mapping[str, Any]) -> bool:
    """Return whether a reason is about the host's cells, or about CPUs and pages in them."""
    resource = str(reason["resource"])
    if resource in _AMOUNTS:
        in_cell = str(reason["where"]).startswith("cell")
        return in_cell or reason["code"] == ReasonCode.NOT_CONFIGURED
    affinity = resource.startswith("NUMA affinity of ")
    return affinity or resource in _OF_CELLS or _is_of_pages(reason)
