"""Builders of layouts: what Placement has, and what the agent wants."""

from collections.abc import Mapping

from rtagent.placement.consumers import ConsumerRecord
from rtagent.placement.provider import InventoryRecord, Provider, Tree
from rtagent.placement.tree import Layout, Pool, ProviderLayout, Quantities, WantedLayout
from tests.unit.placement.values import ROOT, record

A, B, C = "gpu-a", "gpu-b", "gpu-c"
VGPU, GPU_CLASS = "VGPU", "CUSTOM_PCI_10DE_13F1"
CLASSES = frozenset({VGPU, GPU_CLASS})


def consumers(**allocations: Mapping[str, Quantities]) -> dict[str, ConsumerRecord]:
    """Return consumers by name, each with a generation of its own."""
    return {
        name: ConsumerRecord(
            generation=number,
            project_id=f"project-{name}",
            user_id="user",
            consumer_type="INSTANCE",
            allocations=parts,
        )
        for number, (name, parts) in enumerate(allocations.items(), start=3)
    }


def layout(
    inventories: Mapping[str, Mapping[str, InventoryRecord]],
    known: Mapping[str, ConsumerRecord] | None = None,
) -> Layout:
    """Return a layout whose providers have the allocations of these consumers."""
    known = known or {}
    return Layout(
        providers={
            uuid: ProviderLayout(
                name=f"name-{uuid}",
                generation=number,
                inventories=records,
                allocations={
                    name: each.allocations[uuid]
                    for name, each in known.items()
                    if uuid in each.allocations
                },
            )
            for number, (uuid, records) in enumerate(inventories.items(), start=7)
        },
        consumers=known,
    )


def wanted(
    children: Mapping[str, Mapping[str, InventoryRecord]],
    claimed: Mapping[str, Mapping[Pool, int]] | None = None,
    observed: Mapping[str, Mapping[Pool, int]] | None = None,
    classes: frozenset[str] = CLASSES,
) -> WantedLayout:
    """Return a host with VCPU on the root, and children."""
    root = Provider(uuid=ROOT, name="cn1", inventories={"VCPU": record(8)}, traits=frozenset())
    devices = (
        Provider(
            uuid=uuid, name=f"cn1_{uuid}", parent=ROOT, inventories=records, traits=frozenset()
        )
        for uuid, records in children.items()
    )
    tree, claimed = Tree(revision=1, providers=(root, *devices)), claimed or {}
    return WantedLayout(tree=tree, classes=classes, claimed=claimed, observed=observed or {})
