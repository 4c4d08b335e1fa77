"""Builders of providers, trees and host states for the tests of the Placement mirror."""

from typing import Any

from rtagent.model.claim import Claim
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.node_state import NodeState
from rtagent.model.request import Flavor, InstanceFacts
from rtagent.placement.provider import Contents, InventoryRecord, Provider, Tree
from tests.support.hosts import NODE, NOON, domain_usage, host, uid, with_claims

ROOT = NODE.uuid


def record(total: int = 8, reserved: int = 0, ratio: float = 1.0) -> InventoryRecord:
    return InventoryRecord(total=total, reserved=reserved, max_unit=total, allocation_ratio=ratio)


def provider(
    inventories: dict[str, InventoryRecord] | None = None,
    traits: set[str] | None = None,
    exclusive: Contents | None = None,
    uuid: str = ROOT,
    name: str = "cn1",
    parent: str | None = None,
) -> Provider:
    return Provider(
        uuid=uuid,
        name=name,
        inventories=inventories or {},
        traits=frozenset(traits or ()),
        exclusive=exclusive or Contents(),
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


def domain(
    vcpus: int, memory_mb: int, owner: str | None = None, active: bool = True
) -> DomainUsage:
    return domain_usage(owner, vcpus, memory_mb, active=active)


def state(
    claims: tuple[Claim, ...] = (),
    domain_usages: tuple[DomainUsage, ...] = (),
    revision: int = 1,
    **policy: Any,
) -> NodeState:
    """Return the builders' host (8 CPUs, 16 GB, 100 GB) with these claims and domains."""
    return with_claims(host(**policy), claims, domain_usages, revision)
