"""Takeovers with a fake Placement: what is read, adopted, put in force, and when."""

import json
from collections.abc import Sequence

import pytest
from msgspec.structs import asdict, replace

from rtagent.claims import instance_claim
from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.lifecycle.attach import quarantine_used_before
from rtagent.model.mem_encryption import RESOURCE_CLASS as CONTEXTS
from rtagent.model.node_state import NodeState
from rtagent.placement import tree
from rtagent.placement.adoption import NAME, Adoption, AdoptionFile
from rtagent.placement.client import SHARING
from rtagent.placement.provider import Ownership, Tree
from rtagent.placement.synchroniser import Synchroniser
from rtagent.placement.takeover import Takeover
from rtagent.testing.placement import MemoryPlacement
from tests.support.device_states import (
    VGPU_TYPE,
    after,
    built,
    device_host,
    encrypted,
    policy,
    sev_host,
)
from tests.support.hosts import NODE, NOON, TOPOLOGY, call, uid
from tests.support.pci_hosts import GPU_0, gpu, record
from tests.unit.placement.values import record as counts

GPU = "pci_0000_08_00_0"
ROOT, NAME_OF_ROOT = NODE.uuid, NODE.hypervisor_hostname
SHARED, AGGREGATE = uid(70), uid(71)


class Process:
    """The part of an agent that takes over."""

    def __init__(self, api: MemoryPlacement, state_path, state: NodeState) -> None:
        self.api, self.ownership = api, Ownership()
        self.file, self.state = AdoptionFile(state_path), state
        self.failure: PlacementError | None = None
        self.restart()

    def restart(self) -> None:
        self.put_in_force(self.file.read(ROOT))
        self.takeover = Takeover(
            *(self.api, self.ownership, self.file, lambda: self.state, self.wanted),
            *(self.put_in_force, self.quarantine),
        )

    def wanted(self) -> Tree | None:
        return tree.build(self.state, False, True)

    def put_in_force(self, adoption: Adoption) -> None:
        if self.failure is not None:
            raise self.failure
        self.state = replace(self.state, policy=adoption.applied_to(self.state.policy))

    def quarantine(self, addresses: Sequence[str]) -> None:
        used = quarantine_used_before(self.state, call(), NOON, addresses)
        self.state = self.state.fold(used.change)

    def prepare(self, reading: bool = True) -> list[str]:
        """Return the requests."""
        self.api.requests.clear()
        self.takeover.prepare(reading)
        return list(self.api.requests)

    def push(self) -> None:
        assert Synchroniser(self.api, self.ownership).sync(self.wanted()).problems == ()

    @property
    def adopted(self) -> dict[str, str]:
        return dict(self.state.policy.placement.adopted)


@pytest.fixture
def process(tmp_path) -> Process:
    """A host with one GPU that provides virtual GPUs."""
    state = device_host(record([gpu(GPU_0, 0, vgpus=4)]), pci=policy((), mdev_types=(VGPU_TYPE,)))
    return Process(MemoryPlacement(), tmp_path, replace(state, topology=TOPOLOGY))


def nova_child(api: MemoryPlacement, uuid: str = uid(60), suffix: str = GPU) -> str:
    if uuid != ROOT and api.provider(ROOT) is None:
        api.create_provider(ROOT, NAME_OF_ROOT)
    api.create_provider(uuid, f"{NAME_OF_ROOT}_{suffix}", ROOT)
    return uuid


def test_an_adopted_uuid_is_durable_before_it_is_in_force(process, tmp_path):
    uuid = nova_child(process.api)
    process.failure = PlacementUnavailable("the database is down")
    with pytest.raises(PlacementUnavailable):
        process.prepare()
    assert json.loads((tmp_path / NAME).read_text())["children"] == {GPU: uuid}
    assert process.adopted == {}
    process.failure = None
    process.prepare()
    assert process.adopted == {GPU: uuid}


def test_a_provider_with_the_derived_uuid_is_not_adopted(process):
    process.prepare()
    process.push()
    process.restart()
    process.prepare()
    assert process.adopted == {}
    assert process.takeover.done


def test_a_lost_file_of_adoptions_is_found_again(process, tmp_path):
    uuid = nova_child(process.api)
    process.prepare()
    process.push()
    (tmp_path / NAME).write_text("{")
    process.restart()
    assert process.adopted == {}
    process.prepare()
    assert process.adopted == {GPU: uuid}


def test_a_child_that_another_one_replaced_is_forgotten(process):
    uuid = nova_child(process.api)
    process.prepare()
    process.api.delete(uuid)
    process.restart()
    process.prepare()
    assert process.adopted == {GPU: uuid}  # it will be created with that uuid
    other = nova_child(process.api, uid(61))
    process.restart()
    process.prepare()
    assert process.adopted == {GPU: other}


@pytest.mark.parametrize("suffix", ["amd_sev", "amd_sev_snp", "intel_tdx"])
def test_contexts_that_the_host_does_not_have_are_withdrawn(process, suffix):
    uuid, others = nova_child(process.api, suffix=suffix), nova_child(process.api, uid(61), "rack")
    generation = process.api.put_inventories(uuid, 0, {CONTEXTS: asdict(counts(9))})
    process.api.put_traits(uuid, generation, ["OWNER_NOVA"])
    process.prepare()
    process.push()
    assert process.api.provider(uuid) is None
    assert process.api.provider(others) is not None


def test_contexts_on_the_root_move_to_the_provider_of_the_model(process):
    """nova-compute before 2025.2 had them on the root."""
    process.state, claim = after(sev_host(), instance_claim(sev_host(), call(), NOON, encrypted()))
    process.api.create_provider(ROOT, NAME_OF_ROOT)
    process.api.overwrite(ROOT, inventories={CONTEXTS: asdict(counts(9))})
    process.api.allocate(ROOT, claim.owner_id, {CONTEXTS: 1})
    process.prepare()
    names = {each.uuid: each.name for each in process.wanted().providers}
    (child,) = process.api.consumer(claim.owner_id)["allocations"]
    assert names[child] == f"{NAME_OF_ROOT}_amd_sev"
    assert process.api.shown(ROOT)["inventories"] == {}


def test_a_failed_step_is_repeated_by_the_next_round(process):
    nova_child(process.api)
    process.api.failures["aggregates"] = PlacementUnavailable("gone")
    with pytest.raises(PlacementUnavailable):
        process.prepare()
    del process.api.failures["aggregates"]
    assert "aggregates" in process.prepare(reading=False)
    assert process.prepare(reading=False) == []


def test_a_conflict_of_the_reshape_is_planned_anew(process):
    process.api.create_provider(ROOT, NAME_OF_ROOT)
    one = {"total": 4, "reserved": 0, "max_unit": 4, "allocation_ratio": 1.0}
    process.api.overwrite(ROOT, inventories={"VGPU": one})
    process.state, claim = built(process.state, extra_specs={"resources:VGPU": "1"})
    process.api.allocate(ROOT, claim.owner_id, {"VGPU": 1})
    process.api.failures["reshape"] = PlacementConflict("a provider has another generation")
    with pytest.raises(PlacementConflict):
        process.prepare()
    assert process.api.consumer(claim.owner_id)["allocations"].keys() == {ROOT}
    del process.api.failures["reshape"]
    process.prepare(reading=False)
    child = process.wanted().providers[1].uuid
    assert process.api.consumer(claim.owner_id)["allocations"].keys() == {child}
    assert process.api.shown(ROOT)["inventories"] == {}


# -- shared disk -----------------------------------------------------------------------------------


def share(api: MemoryPlacement, classes: tuple[str, ...] = ("DISK_GB",)) -> None:
    """Create a provider that shares these classes with the root."""
    api.create_provider(SHARED, "shared")
    one = {"total": 1, "reserved": 0, "max_unit": 1, "allocation_ratio": 1.0}
    api.overwrite(SHARED, traits=[SHARING], inventories=dict.fromkeys(classes, one))
    api.aggregate(SHARED, AGGREGATE)
    api.aggregate(ROOT, AGGREGATE)


def disk(process: Process) -> bool:
    return "DISK_GB" in process.wanted().providers[0].inventories


def test_shared_disk_takes_the_place_of_the_hosts_own(process):
    process.prepare()
    process.push()
    assert disk(process)
    share(process.api)
    process.prepare(reading=False)
    assert disk(process)  # read with the regular refresh
    assert process.takeover.prepare(True)
    assert not disk(process)
    assert process.state.policy.placement.disk_provider == SHARED
    process.push()
    assert "DISK_GB" not in process.api.shown(ROOT)["inventories"]

    process.restart()
    assert not disk(process)  # known before Placement is reached
    process.api.aggregate(ROOT)
    process.prepare()
    assert disk(process)


def test_a_sharing_provider_without_disk_changes_nothing(process):
    process.prepare()
    process.push()
    share(process.api, ("SRIOV_NET_VF",))
    process.prepare()
    assert disk(process)


def test_the_host_may_share_its_own_disk(process):
    """A root with the trait is a member of its own aggregate."""
    process.prepare()
    process.push()
    process.api.aggregate(ROOT, AGGREGATE)
    process.api.overwrite(ROOT, traits=[*process.api.shown(ROOT)["traits"], SHARING])
    process.prepare()
    assert disk(process)
