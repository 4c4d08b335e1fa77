"""Providers below the root: one for each device that is told of. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid5

from rtagent.model.node import Node
from rtagent.placement.provider import Provider, Record


def child(
    node: Node, suffix: str, inventories: Mapping[str, Record], traits: frozenset[str] = frozenset()
) -> Provider:
    """:param suffix: what its name adds to the root's; the same device always has the same, and so
    always the same uuid, with nothing to be remembered for it."""
    return Provider(
        uuid=str(uuid5(UUID(node.uuid), suffix)),
        name=f"{node.hypervisor_hostname}_{suffix}",
        parent=node.uuid,
        inventories=inventories,
        traits=traits,
    )


def whole(total: int, reserved: int) -> Record:
    """The record of things that are given away whole, one or more of them at a time."""
    return Record(total=total, reserved=reserved, max_unit=total, allocation_ratio=1.0)
