"""The instance that a claim is for, as the conductor describes it."""

from __future__ import annotations

from rtagent.model.base import Document, Entries, Items, Name, Positive, Text, Uuid
from rtagent.model.device import PciNumaPolicy, Source
from rtagent.model.flavor import Flavor, Image

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
        return InstanceFacts(
            **{name: getattr(self, name) for name in InstanceFacts.__struct_fields__}
        )


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
