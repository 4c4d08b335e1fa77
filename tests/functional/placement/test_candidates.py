"""Claims with the allocations that a real Placement offers: what it allocates is what they get."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.errors import AllocationMismatch
from rtagent.model.claim import Claim
from rtagent.model.decision import Refused
from rtagent.model.device import MdevType
from rtagent.model.policy import AdditionalInventory, PlacementPolicy
from rtagent.model.request import Allocations, BuildRequest, PciRequest
from rtagent.pci.specs import parse_specs
from tests.functional.placement.conftest import PATIENCE, MirroredNode
from tests.support.device_states import VGPU_TYPE, after, device_host, policy
from tests.support.hosts import NOON, call, request, uid
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, VF_IDS, gpu, nic, record
from tests.support.provider_files import additional

PF_1 = "0000:a0:00.0"
VF_CLASS, FOO = "CUSTOM_PCI_8086_154C", "CUSTOM_FOO_OF_A_FILE"
TYPES = (MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=2),)
REPORTED = policy(
    parse_specs([json.dumps(VF_IDS)]), mdev_types=(VGPU_TYPE,), report_in_placement=True
)
FLAVOR = {"resources:VGPU": "1", f"resources:{FOO}": "1"}
#: The groups of a conductor's request: the flavor's own, and one for each device of a PCI request.
GROUPS = {
    "resources": f"VCPU:1,MEMORY_MB:64,VGPU:1,{FOO}:1",
    "resources_nic-0": f"{VF_CLASS}:1",
    "resources_nic-1": f"{VF_CLASS}:1",
    "group_policy": "none",
}


class Scheduler:
    """A node that is in Placement, and a scheduler that allocates its resources."""

    def __init__(self, node: MirroredNode) -> None:
        self.node, self.placement = node, node.server.client("1.36")
        devices = record(
            [
                *(gpu(address, mdev_types=TYPES) for address in (GPU_0, GPU_1)),
                *(vf for pf in (PF_0, PF_1) for vf in tuple(nic(pf, vfs=2))[1:]),
            ]
        )
        foo = additional(FOO, 3)
        state = replace(device_host(devices, pci=REPORTED), node=node.state.node)
        offers = replace(state.policy, placement=PlacementPolicy(additional=(foo,)))
        node.state = replace(state, policy=offers)
        node.start().sync_now(PATIENCE)
        self._offer(foo)

    def _offer(self, foo: AdditionalInventory) -> None:
        """Publish the inventory as its provider file does."""
        self.placement.put(f"/resource_classes/{FOO}")
        if FOO not in self.node.inventories:
            record = {"total": foo.total, "max_unit": foo.max_unit}
            self.node.set_inventories({**self.node.inventories, FOO: record})

    def candidates(self) -> list[dict[str, Any]]:
        """Return the candidates on this node."""
        query = "&".join(f"{name}={value}" for name, value in GROUPS.items())
        found = self.placement.get(f"/allocation_candidates?{query}").json()
        return [
            each for each in found["allocation_requests"] if self.node.uuid in each["allocations"]
        ]

    def request(self, candidate: dict[str, Any], owner: str) -> BuildRequest:
        """Return the request of a conductor for a candidate that it has allocated."""
        allocations = msgspec.convert(candidate["allocations"], Allocations)
        mapping = {name: tuple(uuids) for name, uuids in candidate["mappings"].items()}
        pci_requests = (PciRequest(count=2, request_id="nic", alias_name="vf"),)
        asked = request(
            1, 64, owner=owner, extra_specs=FLAVOR, instance={"pci_requests": pci_requests}
        )
        return replace(asked, allocations=allocations, provider_mapping=mapping)

    def allocate(self, candidate: dict[str, Any], owner: str) -> None:
        parts = {uuid: part["resources"] for uuid, part in candidate["allocations"].items()}
        answer = self.node.server.allocate(owner, parts, mappings=candidate["mappings"])
        assert answer == 204

    def allocated(self, owner: str) -> dict[str, Any]:
        """Return what Placement has for a consumer, as a conductor reads it."""
        found: dict[str, Any] = self.placement.get(f"/allocations/{owner}").json()["allocations"]
        return found


@pytest.fixture
def scheduler(node: MirroredNode) -> Scheduler:
    return Scheduler(node)


def units(claim: Claim) -> Iterator[tuple[str | None, str]]:
    """Yield provider and class of each device, unit and quantity of a claim."""
    yield from ((device.provider, VF_CLASS) for device in claim.pci)
    yield from ((unit.provider, unit.resource_class) for unit in claim.resources)
    for each in claim.quantities:
        yield from [(each.provider, each.resource_class)] * each.quantity


def expected(allocations: dict[str, Any]) -> Counter[tuple[str, str]]:
    return Counter(
        {
            (uuid, name): number
            for uuid, each in allocations.items()
            for name, number in each["resources"].items()
            if name not in ("VCPU", "MEMORY_MB")
        }
    )


def test_every_candidate_is_granted_from_its_own_providers(scheduler):
    candidates = scheduler.candidates()
    assert len(candidates) >= 6  # two GPUs, and two devices on either or on both cards
    for candidate in candidates:
        asked = scheduler.request(candidate, uid())
        _, claim = after(
            scheduler.node.state, claims.instance_claim(scheduler.node.state, call(), NOON, asked)
        )
        assert Counter(units(claim)) == expected(candidate["allocations"])


def test_guests_get_what_is_allocated_to_them_until_neither_has_more(scheduler):
    owners = []
    while candidates := scheduler.candidates():
        owner, chosen = uid(), candidates[len(owners) % len(candidates)]
        scheduler.allocate(chosen, owner)
        whole = {"allocations": scheduler.allocated(owner), "mappings": chosen["mappings"]}
        state = scheduler.node.state
        decision = claims.instance_claim(state, call(), NOON, scheduler.request(whole, owner))
        scheduler.node.state, claim = after(state, decision)
        assert Counter(units(claim)) == expected(whole["allocations"])
        owners.append(owner)
    assert len(owners) == 2  # four virtual functions
    full = replace(scheduler.request(whole, uid()), allocations=None, provider_mapping={})
    assert isinstance(claims.instance_claim(scheduler.node.state, call(), NOON, full), Refused)


def test_allocation_of_another_request_is_a_mismatch(scheduler):
    candidate = scheduler.candidates()[0]
    asked = scheduler.request(candidate, uid())
    bigger = replace(asked.instance, flavor=replace(asked.instance.flavor, memory_mb=128))
    with pytest.raises(AllocationMismatch, match=r"MEMORY_MB .*: 64 allocated, 128 needed"):
        claims.instance_claim(scheduler.node.state, call(), NOON, replace(asked, instance=bigger))
