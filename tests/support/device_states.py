"""States of nodes with devices, claims on them, and what an audit observes."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from rtagent import claims
from rtagent.lifecycle import attach
from rtagent.model.assignment import PmemNamespace, ResourceInventory
from rtagent.model.claim import Claim
from rtagent.model.decision import Granted, Refused
from rtagent.model.device import Device, Mdev, PciDevice, PciDevices
from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_ES, EncryptionCapacity, provider_suffix
from rtagent.model.node_state import NodeState
from rtagent.model.observation import Domain, Observation
from rtagent.model.policy import EnabledMdevType, PciPolicy, PlacementPolicy
from rtagent.model.provider_names import provider_uuid
from rtagent.model.request import AttachRequest, BuildRequest, Image, Instance, PciRequest
from rtagent.pci.mdev import mdev_inventories
from rtagent.pci.pmem import present_inventories
from rtagent.pci.specs import parse_specs
from tests.support import audits
from tests.support.hosts import NODE, NOON, PINNING, TOPOLOGY, call, domain_usage, host, request
from tests.support.pci_hosts import ALIASES, GPU_IDS, SPECS, two_gpus_and_a_nic

PMEM = ResourceInventory(
    provider="", resource_class="CUSTOM_PMEM_NAMESPACE_4GB", identifiers=("ns0", "ns1")
)
#: The host's persistent memory: the namespaces of `PMEM`.
NAMESPACES = tuple(
    PmemNamespace(name=name, path=f"/dev/dax{number}.0", size_kb=4 * 1024 * 1024, align_kb=2048)
    for number, name in enumerate(PMEM.identifiers)
)
VGPU_TYPE = EnabledMdevType(
    type="nvidia-11", addresses=None, resource_class="VGPU", max_instances=None
)
#: A specification of all GPUs with the tag `one_time_use`.
ONE_TIME = parse_specs([json.dumps({**GPU_IDS, "one_time_use": "yes"})])


def policy(specs=SPECS, **other: object) -> PciPolicy:
    return PciPolicy(specs=specs, aliases=ALIASES, **other)


def device_host(
    devices: dict[str, PciDevice] | None = None, *, pci: PciPolicy | None = None
) -> NodeState:
    """Return a node of two cells.

    :param devices: None: a GPU on each cell, and a network card on the first.
    """
    state = host(numa=PINNING, pci=pci or policy(), cpu_allocation_ratio=4)
    recorded = two_gpus_and_a_nic() if devices is None else devices
    mdevs = mdev_inventories(
        state.policy.pci.mdev_types, (each.device for each in recorded.values()), {}
    )
    pmem = present_inventories(state.policy.pci.pmem, (), NAMESPACES)
    return replace(state, devices=PciDevices(recorded), resource_inventories=(*mdevs, *pmem))


def built(
    state: NodeState,
    aliases: str = "",
    *,
    extra_specs: Mapping[str, str] | None = None,
    **arguments: Any,
) -> tuple[NodeState, Claim]:
    """Build a claim for a flavor with these aliases; a refusal fails the test.

    :param arguments: of `request`.
    """
    return build_claim(state, aliased(aliases, extra_specs=extra_specs, **arguments))


def aliased(
    aliases: str, *, extra_specs: Mapping[str, str] | None = None, **arguments: Any
) -> BuildRequest:
    """Return a request for a flavor with these aliases. :param arguments: of `request`."""
    specs = {**({"pci_passthrough:alias": aliases} if aliases else {}), **(extra_specs or {})}
    return request(extra_specs=specs, **arguments)


def build_claim(state: NodeState, build: BuildRequest) -> tuple[NodeState, Claim]:
    """Build the claim of a request; a refusal fails the test."""
    return after(state, claims.instance_claim(state, call(), NOON, build))


def with_builds(state: NodeState, *builds: BuildRequest) -> NodeState:
    """Return the state after claims of these requests; a refusal fails the test."""
    for build in builds:
        state, _ = build_claim(state, build)
    return state


def refusal(state: NodeState, build: BuildRequest) -> Refused:
    """Return why no claim is made of a request; a claim fails the test."""
    decision = claims.instance_claim(state, call(), NOON, build)
    assert isinstance(decision, Refused)
    return decision


def after(state: NodeState, decision) -> tuple[NodeState, Claim]:
    assert isinstance(decision, Granted), str(decision)
    new = state.fold(decision.change)
    new.check()
    return new, decision.claims[0]


def running(state: NodeState, claim: Claim) -> NodeState:
    """Activate the claim."""
    return after(state, claims.activate_claim(state, call("activate_claim"), NOON, claim.uuid))[0]


def released(state: NodeState, claim: Claim) -> NodeState:
    return after(state, claims.release_claim(state, call("release_claim"), NOON, claim.uuid))[0]


def attaching(claim: Claim, *aliases: str) -> AttachRequest:
    """Return a request to attach a device of each alias to the claim's guest."""
    return AttachRequest(
        instance=Instance(uuid=claim.owner_id, flavor=claim.flavor),
        pci_requests=tuple(PciRequest(count=1, alias_name=alias) for alias in aliases),
    )


def attached(state: NodeState, claim: Claim, *aliases: str) -> tuple[NodeState, Claim]:
    attach_request = attaching(claim, *aliases)
    decision = attach.claim_pci_devices(state, call("claim_pci_devices"), NOON, attach_request)
    return after(state, decision)


def addresses(claim: Claim) -> list[str]:
    return [device.address for device in claim.pci]


def guest(
    claim: Claim, *more: Claim, devices: Iterable[str] = (), mdevs: Iterable[str] = ()
) -> Domain:
    """Return a domain with the devices of its claims, and further devices."""
    claimed = {address for each in (claim, *more) for address in addresses(each)}
    return domain(
        claim.owner_id,
        {*claimed, *devices},
        mdevs,
        vcpus=claim.flavor.vcpus,
        memory_mb=claim.flavor.memory_mb,
    )


def domain(
    uuid: str,
    devices: Iterable[str] = (),
    mdevs: Iterable[str] = (),
    *,
    vcpus: int = 1,
    memory_mb: int = 1024,
    active: bool = True,
) -> Domain:
    occupancy = Occupancy(devices=frozenset(devices), mdevs=frozenset(mdevs))
    return replace(audits.domain(uuid, vcpus, memory_mb, active), occupancy=occupancy)


def seen(
    state: NodeState,
    *domains: Domain,
    devices: Iterable[Device] | None = None,
    listed: bool = True,
    mdevs: Iterable[Mdev] = (),
    namespaces: Iterable[PmemNamespace] = NAMESPACES,
) -> Observation:
    """Return an observation of the host.

    :param devices: None: the recorded ones. :param listed: whether devices could be listed.
    """
    present = (each.device for each in state.devices.values()) if devices is None else devices
    return replace(
        audits.seen(*domains),
        devices=tuple(present) if listed else None,
        mdevs=tuple(mdevs),
        namespaces=tuple(namespaces),
    )


def audited(base: NodeState, observation: Observation, *, lapsed: Iterable[str] = ()) -> NodeState:
    """Return the state after an audit. :param lapsed: claims whose lease has ended."""
    return audits.audited(base, observation, lapsed)[0]


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
    stateless = {"hw_firmware_stateless": "true", "hw_video_model": "none"}
    image = Image(properties={"hw_firmware_type": "uefi", **stateless})
    return request(extra_specs=specs, instance={"image": image}, **arguments)


def orphan(model: str = AMD_SEV) -> DomainUsage:
    """Return the usage of a domain without a claim."""
    return domain_usage(memory_mb=64, occupancy=Occupancy(mem_encryption=model))


def provider_of(model: str) -> str:
    """Return the uuid of the provider of a model's contexts."""
    return provider_uuid(NODE, PlacementPolicy(), provider_suffix(model))
