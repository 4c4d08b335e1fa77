"""Pools: available devices that are as good as each other, counted. What a scheduler is told.

A device is in exactly one pool, whose key, `kinds.worth`, is all that tells devices apart and
nothing else (LP2098496: a key of more than that counted devices twice).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rtagent.model.base import Value
from rtagent.model.device import Tags
from rtagent.pci.kinds import Kind, worth
from rtagent.pci.tags import said


class Pool(Value, frozen=True, kw_only=True):
    """:ivar addresses: of the devices in it, in order."""

    vendor_id: str
    product_id: str
    numa_node: int | None
    dev_type: str
    parent_ifname: str | None
    tags: Tags
    addresses: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many devices are in it."""
        return len(self.addresses)

    def as_dict(self) -> dict[str, Any]:
        """Shape: Nova's PciDevicePool, JSON primitives; tags that say nothing are left out."""
        parent = {} if self.parent_ifname is None else {"parent_ifname": self.parent_ifname}
        tags = {"dev_type": self.dev_type, **parent, "remote_managed": "false", **said(self.tags)}
        return {
            "vendor_id": self.vendor_id,
            "product_id": self.product_id,
            "numa_node": self.numa_node,
            "tags": tags,
            "count": self.count,
        }


def pools(available: Iterable[Kind]) -> tuple[Pool, ...]:
    """What `states.Holdings.available` tells, in a stable order."""
    grouped: dict[tuple[Any, ...], list[Kind]] = {}
    for kind in available:
        grouped.setdefault(worth(kind.like), []).append(kind)
    made = (_pool(alike) for alike in grouped.values())
    return tuple(sorted(made, key=lambda pool: pool.addresses))


def _pool(alike: Sequence[Kind]) -> Pool:
    first = alike[0].like
    return Pool(
        vendor_id=first.device.vendor_id,
        product_id=first.device.product_id,
        numa_node=first.device.numa_node,
        dev_type=first.device.dev_type,
        parent_ifname=first.device.parent_ifname,
        tags=first.tags,
        addresses=tuple(sorted(address for kind in alike for address in kind.addresses)),
    )
