"""Requests for resources: of builds, and of devices for a guest that is here; their flavors."""

import re
from collections.abc import Iterator
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
    Text,
    Uuid,
    made_from,
)
from rtagent.model.device import PciNumaPolicy, Source

#: A resource class in the flavor, of the request itself or of a request group. Nova's grammar.
_GROUP = re.compile(r"resources(?P<suffix>[a-zA-Z0-9_-]{1,64})?:(?P<name>.*)")


class Flavor(Document, frozen=True, kw_only=True):
    """The size and the extra specs of a guest.

    :ivar memory_mb: MB. :ivar root_gb: GB. :ivar ephemeral_gb: GB. :ivar swap: MB.
    """

    vcpus: Positive
    memory_mb: Positive
    root_gb: Count = 0
    ephemeral_gb: Count = 0
    swap: Count = 0
    flavorid: Name = ""
    name: Name = ""
    extra_specs: Entries[Name, Text] = {}

    @property
    def in_request_groups(self) -> Iterator[tuple[str, str, str, str]]:
        """Key, group, resource class and value of each ``resources:CLASS``, whose group is "", and
        ``resources<group>:CLASS`` that has a value.
        """
        for key, value in self.extra_specs.items():
            found = _GROUP.fullmatch(key)
            if value and found is not None:
                yield key, found["suffix"] or "", found["name"], value


class Image(Document, frozen=True, kw_only=True):
    """The image that a guest is built from.

    :ivar properties: image properties (``hw_cpu_policy`` and others), as strings.
    """

    properties: Entries[Name, Text] = {}


#: Tasks of a shelved instance that is being restored on this host. Its resources are needed.
UNSHELVING = frozenset({"unshelving", "spawning"})


def is_gone(vm_state: str, task_state: str | None) -> bool:
    """Return whether an instance needs no resources on this host (Nova's ``vm_states``,
    LP2025480).
    """
    offloaded = vm_state == "shelved_offloaded" and task_state not in UNSHELVING
    return vm_state == "deleted" or offloaded


class PciRequest(Document, frozen=True, kw_only=True):
    """Devices requested by a flavor's alias or by a port.

    :ivar spec: alternatives, each with the properties that a device must have (``vendor_id``,
        ``physical_network`` and others). A null ``physical_network`` is a tunnelled network.
    """

    count: Positive
    request_id: Name | None = None
    alias_name: Name | None = None
    spec: Items[Entries[Name, Text | None]] = ()
    numa_policy: PciNumaPolicy | None = None
    source: Source = "flavor_alias"
    requester_id: Name | None = None


class InstanceFacts(Document, frozen=True, kw_only=True):
    """The owner and the state of an instance, from which statistics are counted."""

    project_id: Name | None = None
    user_id: Name | None = None
    display_name: Name | None = None
    vm_state: Name | None = None
    task_state: Name | None = None
    os_type: Name | None = None
    is_volume_backed: bool = False


class Instance(InstanceFacts, frozen=True, kw_only=True):
    """An instance to claim resources for."""

    uuid: Uuid
    flavor: Flavor
    image: Image = Image()
    pci_requests: Items[PciRequest] = ()

    def facts(self) -> InstanceFacts:
        """Return the part that may change during the claim's life."""
        return made_from(InstanceFacts, self)


class InstanceUpdate(Document, frozen=True, kw_only=True):
    """The new state of an instance.

    A field that is omitted or null stays as it is, except ``task_state``: null means that no task
    runs. ``flavor``, ``image`` and ``pci_requests`` are ignored, because the resources of a claim
    never change.
    """

    uuid: Uuid
    vm_state: Name
    task_state: Name | None = None
    project_id: Name | None = None
    user_id: Name | None = None
    display_name: Name | None = None
    os_type: Name | None = None
    is_volume_backed: bool | None = None
    flavor: Flavor | None = None
    image: Image | None = None
    pci_requests: Items[PciRequest] | None = None


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
