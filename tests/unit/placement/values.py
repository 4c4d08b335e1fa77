"""Trees, providers and a mirror's surroundings, short to write."""

from __future__ import annotations

from typing import Any

from rtagent.model.claim import Claim
from rtagent.model.flavor import Flavor
from rtagent.model.holding import Holding
from rtagent.model.host import HostState, restore
from rtagent.model.instance import InstanceFacts
from rtagent.placement.provider import Contents, Provider, Record, Tree
from tests.builders import NODE, NOON, host, uid

ROOT = NODE.uuid


def record(total: int = 8, reserved: int = 0, ratio: float = 1.0) -> Record:
    return Record(total=total, reserved=reserved, max_unit=total, allocation_ratio=ratio)


def provider(
    inventories: dict[str, Record] | None = None,
    traits: set[str] | None = None,
    ruled: Contents | None = None,
    uuid: str = ROOT,
    name: str = "cn1",
    parent: str | None = None,
) -> Provider:
    return Provider(
        uuid=uuid,
        name=name,
        inventories=inventories or {},
        traits=frozenset(traits or ()),
        ruled=ruled or Contents(),
        parent=parent,
    )


def tree(*providers: Provider, revision: int = 1) -> Tree:
    return Tree(revision=revision, providers=providers)


def contents(classes: set[str] | None = None, traits: set[str] | None = None) -> Contents:
    return Contents(classes=frozenset(classes or ()), traits=frozenset(traits or ()))


def claim(vcpus: int, memory_mb: int, disk_mb: int, owner: str | None = None) -> Claim:
    return Claim(
        uuid=uid(),
        host=NODE.host,
        node=NODE.hypervisor_hostname,
        node_uuid=NODE.uuid,
        owner_id=owner or uid(),
        state="active",
        vcpus=vcpus,
        memory_mb=memory_mb,
        disk_mb=disk_mb,
        created_at=NOON,
        updated_at=NOON,
        revision=0,
        instance=InstanceFacts(),
        flavor=Flavor(vcpus=1, memory_mb=1),
    )


def domain(vcpus: int, memory_mb: int, owner: str | None = None, active: bool = True) -> Holding:
    return Holding(
        domain_uuid=owner or uid(), name="d", active=active, vcpus=vcpus, memory_mb=memory_mb
    )


def state(
    claims: tuple[Claim, ...] = (),
    holdings: tuple[Holding, ...] = (),
    revision: int = 1,
    **policy: Any,
) -> HostState:
    """The builders' host (8 CPUs, 16 GB, 100 GB) with these claims and domains."""
    return restore(host(**policy), claims, holdings, revision)
