"""Requests to claim resources for a build, and devices for a guest that is here."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from rtagent.model.base import (
    Count,
    Document,
    Entries,
    Items,
    Name,
    Positive,
    SomeItems,
    Uuid,
    Value,
)
from rtagent.model.instance import Instance, PciRequest

Ratio = Annotated[float, Meta(gt=0, le=1_000_000)]


class NetworkMetadata(Document, frozen=True, kw_only=True):
    """The networks that a guest is attached to.

    :ivar physnets: names of physical networks.
    :ivar tunneled: it is attached to a tunnelled network, too.
    """

    physnets: Items[Name] = ()
    tunneled: bool = False


class NumaLimits(Document, frozen=True, kw_only=True):
    """Overcommit within one host cell, and networks to which the guest's cells must be near (Nova's
    NUMATopologyLimits).
    """

    cpu_allocation_ratio: Ratio | None = None
    ram_allocation_ratio: Ratio | None = None
    network_metadata: NetworkMetadata | None = None


class Limits(Document, frozen=True, kw_only=True):
    """How much of the host may be used in total, reserved and foreign usage included (Nova's
    meaning). A limit that is left out is what the host advertises.

    :ivar vcpu: vCPUs. :ivar memory_mb: MB. :ivar disk_gb: GB.
    """

    vcpu: Count | None = None
    memory_mb: Count | None = None
    disk_gb: Count | None = None
    numa_topology: NumaLimits | None = None


#: Resource class to a number, or to identifiers of assigned resources.
ExtraResource = Entries[Name, Positive | Items[Name]]


class Allocation(Document, frozen=True, kw_only=True):
    """An allocation from one resource provider, as Placement shows it.

    :ivar resources: numbers by resource class. :ivar generation: of the provider.
    """

    resources: Entries[Name, Positive]
    generation: Count | None = None


#: The consumer's allocations in Placement, by provider uuid.
Allocations = Entries[Uuid, Allocation]

#: By id of a PCI request, or by name of a request group: uuids of the providers of its devices.
ProviderMapping = Entries[Name, SomeItems[Uuid]]


class AttachRequest(Value, frozen=True, kw_only=True):
    """Claim devices for a guest that is here.

    :ivar allocations: see `BuildRequest`: of the whole guest, with the devices to attach.
    :ivar cells: the host cells of the guest, as a fact that the embedding program knows; then the
        guest needs no claim here. Empty: it has no NUMA topology. None: those of its claim.
    """

    instance: Instance
    pci_requests: tuple[PciRequest, ...]
    allocations: Allocations | None = None
    provider_mapping: ProviderMapping = {}
    cells: frozenset[int] | None = None


class BuildRequest(Value, frozen=True, kw_only=True):
    """Claim resources for a build.

    :ivar allocations: the consumer's allocations, which the claim follows; None: the agent chooses.
    """

    instance: Instance
    limits: Limits = Limits()
    extra_resource: ExtraResource = {}
    tag: Name | None = None
    allocations: Allocations | None = None
    provider_mapping: ProviderMapping = {}
