"""The capacity of a host, as bars: used, reserved and free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rtagent.api.page import quantities
from rtagent.model.base import Value

#: The classes of Placement, in words.
NAMES: Mapping[str, str] = {
    "PCPU": "Dedicated CPUs",
    "VCPU": "Shared vCPUs",
    "MEMORY_MB": "Memory",
    "DISK_GB": "Disk",
}


class Capacity(Value, frozen=True, kw_only=True):
    """One resource class.

    :ivar free: may be negative, if more is in use than can be claimed.
    :ivar used_share: percent of the bar; :ivar reserved_share: likewise.
    """

    resource_class: str
    name: str
    used: str
    claimable: str
    free: str
    reserved: str
    ratio: str
    overfull: bool
    used_share: float
    reserved_share: float


def capacities(inventories: Mapping[str, Mapping[str, Any]]) -> Iterator[Capacity]:
    """Return the capacities of a node's document, but those that the host does not have at all."""
    for name, words in NAMES.items():
        found = inventories.get(name)
        if found is not None and (found["total"] or found["used"]):
            yield _capacity(name, words, found)


def _capacity(name: str, words: str, found: Mapping[str, Any]) -> Capacity:
    in_mb = found["unit"] == "MB"
    whole = found["claimable"] + found["reserved"]

    def shown(number: int) -> str:
        return quantities.megabytes(number) if in_mb else str(number)

    return Capacity(
        resource_class=name,
        name=words,
        used=shown(found["used"]),
        claimable=shown(found["claimable"]),
        free=shown(found["free"]),
        reserved=shown(found["reserved"]) if found["reserved"] else "",
        ratio=f"{found['allocation_ratio']:g}" if found["allocation_ratio"] != 1 else "",
        overfull=found["free"] < 0,
        used_share=quantities.share(found["used"], whole),
        reserved_share=quantities.share(found["reserved"], whole),
    )
