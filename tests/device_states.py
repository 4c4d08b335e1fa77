"""Hosts with devices, as states; and what an audit sees of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from rtagent import attach, claims
from rtagent.model.claim import Claim
from rtagent.model.decision import Granted
from rtagent.model.device import Device, Mdev, PciDevice
from rtagent.model.host import HostState
from rtagent.model.instance import Instance, PciRequest
from rtagent.model.numa_usage import Occupancy
from rtagent.model.observation import Domain, Observation
from rtagent.model.pci_devices import PciDevices
from rtagent.model.pci_policy import PciPolicy
from rtagent.model.request import AttachRequest
from rtagent.model.specific import EnabledType, SpecificInventory
from rtagent.pci.mdev import mdev_inventories
from rtagent.pci.spec import parse_specs
from rtagent.reconcile.apply import apply
from rtagent.reconcile.plan import plan
from tests.builders import NOON, PINNING, TOPOLOGY, call, host, request, uid
from tests.pci_hosts import ALIASES, GPU_IDS, SPECS, two_gpus_and_a_nic

PMEM = SpecificInventory(
    provider="", resource_class="CUSTOM_PMEM_NAMESPACE_4GB", identifiers=("ns0", "ns1")
)
VGPU_TYPE = EnabledType(type="nvidia-11", addresses=None, resource_class="VGPU", max_instances=None)
#: Of every GPU: nobody gets it twice before it was cleared.
ONE_TIME = parse_specs([json.dumps({**GPU_IDS, "one_time_use": "yes"})])


def policy(specs=SPECS, **other: object) -> PciPolicy:
    return PciPolicy(specs=specs, aliases=ALIASES, **other)


def device_host(
    devices: dict[str, PciDevice] | None = None, *, pci: PciPolicy | None = None
) -> HostState:
    """Two cells, each with a GPU, and a network card at the first; devices may be others."""
    state = host(numa=PINNING, pci=pci or policy(), cpu_allocation_ratio=4)
    there = two_gpus_and_a_nic() if devices is None else devices
    made = mdev_inventories(
        state.policy.pci.mdev_types, (each.device for each in there.values()), {}
    )
    return replace(state, devices=PciDevices(there), specific=(*made, *state.policy.pci.pmem))


def built(
    state: HostState,
    aliases: str = "",
    *,
    extra_specs: Mapping[str, str] | None = None,
    **asked: Any,
) -> tuple[HostState, Claim]:
    """A claim for a flavor that asks for these aliases; fails with the reasons of a refusal."""
    named = {"pci_passthrough:alias": aliases} if aliases else {}
    specs = {**named, **(extra_specs or {})}
    return after(state, claims.build(state, request(extra_specs=specs, **asked), call(), NOON))


def after(state: HostState, decision) -> tuple[HostState, Claim]:
    assert isinstance(decision, Granted), str(decision)
    new = state.fold(decision.change)
    new.check()
    return new, decision.claims[0]


def running(state: HostState, claim: Claim) -> HostState:
    """The claim is active."""
    return after(state, claims.activate(state, claim.uuid, call("activate_claim"), NOON))[0]


def released(state: HostState, claim: Claim) -> HostState:
    return after(state, claims.end(state, claim.uuid, "release", call("release_claim"), NOON))[0]


def attaching(claim: Claim, *aliases: str, uuid: str | None = None) -> AttachRequest:
    """Devices to be added to the claim's guest."""
    return AttachRequest(
        claim_uuid=uuid or uid(),
        instance=Instance(uuid=claim.owner_id, flavor=claim.flavor),
        pci_requests=tuple(PciRequest(count=1, alias_name=alias) for alias in aliases),
    )


def attached(state: HostState, claim: Claim, *aliases: str) -> tuple[HostState, Claim]:
    asked = attaching(claim, *aliases)
    return after(state, attach.claim_devices(state, asked, call("claim_pci_devices"), NOON))


def addresses(claim: Claim) -> list[str]:
    return [device.address for device in claim.pci]


def guest(
    claim: Claim, *more: Claim, devices: Iterable[str] = (), mdevs: Iterable[str] = ()
) -> Domain:
    """A domain that is what its claims say, and has these devices besides."""
    given = {address for each in (claim, *more) for address in addresses(each)}
    return domain(
        claim.owner_id,
        {*given, *devices},
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
    return Domain(
        uuid=uuid,
        name="vm",
        active=active,
        vcpus=vcpus,
        memory_mb=memory_mb,
        occupancy=Occupancy(devices=frozenset(devices), mdevs=frozenset(mdevs)),
    )


def seen(
    state: HostState,
    *domains: Domain,
    devices: Iterable[Device] | None = None,
    listed: bool = True,
    mdevs: Iterable[Mdev] = (),
) -> Observation:
    """A look at the host. :param devices: None: those of the record."""
    there = (each.device for each in state.devices.values()) if devices is None else devices
    return Observation(
        domains={each.uuid: each for each in domains},
        complete=True,
        topology=TOPOLOGY,
        devices=tuple(there) if listed else None,
        mdevs=tuple(mdevs),
    )


def audited(
    base: HostState, look: Observation, *, now: HostState | None = None, lapsed: Iterable[str] = ()
) -> HostState:
    """The state after an audit. :param now: the state when it is applied, if not the base."""
    state = now or base
    change, _ = apply(state, plan(base, look, frozenset(lapsed)), base.revision, NOON)
    new = state.fold(change) if change else state
    new.check()
    return new
