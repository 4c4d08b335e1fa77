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


class Arguments(Document, frozen=True, kw_only=True):
    """The arguments of every method of an agent.

    :ivar node: the hypervisor_hostname that the caller expects; null: not checked.
    :ivar node_uuid: the uuid of the node that the caller means; null: not checked. Two machines may
        have one name by mistake, but not one uuid.
    """

    node: Name | None = None
    node_uuid: Uuid | None = None


class AttachRequest(Arguments, frozen=True, kw_only=True):
    """Claim devices for a guest that is here.

    :ivar pci_requests: the devices to add. The flavor's aliases are not included.
    :ivar allocations: see `BuildRequest`: of the whole guest, with the devices to add.
    """

    instance: Instance
    pci_requests: SomeItems[PciRequest]
    allocations: Allocations | None = None
    provider_mapping: ProviderMapping | None = None


class BuildRequest(Arguments, frozen=True, kw_only=True):
    """Claim resources for a build.

    :ivar allocations: the instance's allocations in Placement, all of them. The claim gets its
        devices and other resources from the providers that they name, in the same numbers; null:
        the agent chooses.
    :ivar provider_mapping: by the id of a PCI request, or by the name of its alias if it has no
        id: the providers of its devices. Nova's names of request groups are valid, too: the id, a
        hyphen and the number of the device. Other names are ignored, so that ``mappings`` of a
        candidate of Placement can be passed unchanged.
    """

    instance: Instance
    limits: Limits | None = None
    allocations: Allocations | None = None
    provider_mapping: ProviderMapping | None = None
    tag: Name | None = None
    extra_resource: ExtraResource | None = None
