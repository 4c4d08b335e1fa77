"""Domains that a conductor orders, for claims without an agent."""

from __future__ import annotations

from msgspec.structs import replace

from rtagent.model.assigned_resources import AssignedResource
from rtagent.model.claim import Claim
from rtagent.model.flavor import Image
from rtagent.model.guest_domain import GuestDomain
from rtagent.virt.libvirt import guest
from tests.support.hosts import uid
from tests.support.pinned_claims import pinned_claim

#: A mediated device of a simulated host with one shared GPU.
VGPU = AssignedResource(
    parent_addr="0000:48:00.0", resource_class="VGPU", identifier="0000:48:00.0/nvidia-222/0"
)


def guest_domain(
    *cpus: int,
    memory_mb: int = 64,
    name: str | None = None,
    owner: str | None = None,
    resources: tuple[AssignedResource, ...] = (),
    document: str | None = None,
    **properties: str,
) -> GuestDomain:
    """Return a domain pinned to these CPUs; without any, its claim assigns nothing.

    :param properties: of the image.
    """
    claim: Claim = pinned_claim(*cpus, owner=owner or uid(), memory_mb=memory_mb)
    if not cpus:
        claim = replace(claim, numa_topology=None)
    claim = replace(claim, resources=resources, image=Image(properties=properties))
    return GuestDomain(
        uuid=claim.owner_id,
        name=name or claim.owner_id,
        claim=claim,
        guest=guest.xml(claim),
        node_devices=guest.node_devices(claim),
        document=document,
    )
