"""Hosts with encryption of guests' memory, and guests that request it."""

from __future__ import annotations

from msgspec.structs import replace

from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.model.flavor import Image
from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_ES, EncryptionCapacity, provider_suffix
from rtagent.model.node_state import NodeState
from rtagent.model.placement_policy import PlacementPolicy
from rtagent.model.provider_names import provider_uuid
from rtagent.model.request import BuildRequest
from tests.support.hosts import NODE, TOPOLOGY, host, request, uid

SEV = EncryptionCapacity(model=AMD_SEV, cbitpos=51, reduced_phys_bits=1, contexts=2)
SEV_ES = replace(SEV, model=AMD_SEV_ES, contexts=1)


def sev_host(*capacities: EncryptionCapacity, **policy: object) -> NodeState:
    """Return a node with two contexts of SEV and one of SEV-ES, or with these."""
    models = capacities or (SEV, SEV_ES)
    return host(replace(TOPOLOGY, mem_encryption=models), **policy)


def encrypted(model: str | None = None, **arguments: object) -> BuildRequest:
    """Return a request for a guest with encrypted memory."""
    specs = {"hw:mem_encryption": "true"}
    if model is not None:
        specs["hw:mem_encryption_model"] = model
    image = Image(properties={"hw_firmware_type": "uefi"})
    return request(extra_specs=specs, instance={"image": image}, **arguments)


def orphan(model: str = AMD_SEV) -> DomainUsage:
    """Return the usage of a domain without a claim."""
    occupancy = Occupancy(mem_encryption=model)
    return DomainUsage(
        domain_uuid=uid(), name="d", active=True, vcpus=1, memory_mb=64, occupancy=occupancy
    )


def provider_of(model: str) -> str:
    """Return the uuid of the provider of a model's contexts."""
    return provider_uuid(NODE, PlacementPolicy(), provider_suffix(model))
