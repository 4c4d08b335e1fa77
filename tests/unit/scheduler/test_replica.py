"""Replicas: the corners in which a total of all owners could say too much or too little."""

import pytest
from msgspec.structs import replace

from rtagent.allocation import requirements
from rtagent.allocation.allocate import allocate
from rtagent.lifecycle.moves import move_claim
from rtagent.model.change import Change
from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.model.migration import MoveRequest
from rtagent.pci.mdev import mdev_uuid
from rtagent.scheduler.replica import replica_for, replica_of
from rtagent.scheduler.report import (
    description_of,
    digest_of,
    instances_of,
    report_of,
)
from tests.support.device_states import (
    PMEM,
    VGPU_TYPE,
    built,
    device_host,
    policy,
    running,
)
from tests.support.hosts import NOON, call, host, request, uid
from tests.support.pci_hosts import GPU_1, record
from tests.support.random_nodes import GPUS


def replica(state):
    description = description_of(state)
    return replica_of(report_of(state, digest_of(description)), description)


def own(state, owner):
    """The replica for an owner that is on the host."""
    return replica_for(replica(state), instances_of(state)[owner])


def appears(state, owner, *, active=True, vcpus=1, memory_mb=64, **occupancy):
    usage = DomainUsage(
        domain_uuid=owner,
        name="vm",
        active=active,
        vcpus=vcpus,
        memory_mb=memory_mb,
        occupancy=Occupancy(**{key: frozenset(units) for key, units in occupancy.items()}),
    )
    return state.fold(Change(cause="audit", at=NOON, domain_usages=(usage,)))


def decided(state, build):
    required = requirements.from_request(build, state.policy)
    return allocate(state, build.instance.uuid, required)


def alike(state, build):
    """The decision of the agent, which is also that of the scheduler."""
    owner = build.instance.uuid
    theirs = own(state, owner) if owner in instances_of(state) else replica(state)
    decision = decided(state, build)
    assert decided(theirs, build) == decision
    return decision


def wants(alias="", owner=None, **extra_specs):
    specs = {"pci_passthrough:alias": alias} if alias else {}
    return request(owner=owner, extra_specs={**specs, **extra_specs})


def devices(decision):
    return [device.address for device in decision.pci] if hasattr(decision, "pci") else None


@pytest.mark.parametrize("active", [True, False])
def test_an_orphan_keeps_its_devices_when_it_is_adopted(active):
    owner = uid()
    state = appears(device_host(), owner, active=active, devices=[GPU_1])
    assert devices(alike(state, wants("gpu:1", owner))) == [GPU_1]
    if not active:  # then another owner may get it first
        state, _ = built(state, "gpu:2")
        assert devices(alike(state, wants("gpu:1", owner))) is None


def mdev_host():
    return device_host(record(GPUS), pci=policy(mdev_types=(VGPU_TYPE,)))


def test_mediated_devices_and_their_parents():
    first, second = mdev_host().resource_inventories
    name = first.identifiers[0]
    mdev = mdev_uuid(mdev_host().node.uuid, name)
    owner = uid()
    busy = appears(mdev_host(), owner, mdevs=[mdev], mdev_parents=[first.provider])
    assert len(alike(busy, wants(**{"resources:VGPU": "2"})).resources) == 2
    for asked in ("1", "2", "3", "4"):
        alike(busy, wants(**{"resources:VGPU": asked}))
        alike(busy, wants(owner=owner, **{"resources:VGPU": asked}))
    adopted = alike(busy, wants(owner=owner, **{"resources:VGPU": "1"}))
    assert [unit.identifier for unit in adopted.resources] == [name]
    assert alike(busy, wants("gpu:2", owner)) is not None

    # Another domain uses the same one: neither may have it again.
    both = appears(busy, uid(), mdevs=[mdev], mdev_parents=[first.provider])
    adopted = alike(both, wants(owner=owner, **{"resources:VGPU": "1"}))
    assert [unit.identifier for unit in adopted.resources] != [name]
    assert second.provider != first.provider


def test_classes_whose_inventory_is_gone_are_known():
    state, _ = built(device_host(pci=policy(pmem=(PMEM,))), extra_specs={"hw:pmem": "4GB"})
    gone = replace(state, resource_inventories=())
    assert replica(gone).former_pools == {("", PMEM.resource_class)}
    assert replica(state).former_pools == frozenset()


@pytest.mark.parametrize("reuse", [False, True])
def test_an_owner_counts_once_also_with_an_assumed_claim(reuse):
    state, claim = built(host(same_host_resize_reuse=reuse), vcpus=3, root_gb=10)
    state = appears(running(state, claim), claim.owner_id, vcpus=5, memory_mb=64)
    theirs = own(state, claim.owner_id)
    assert theirs.usage == state.usage
    assert theirs.usage_of(claim.owner_id) == state.usage_of(claim.owner_id)
    assert replica_for(theirs, instances_of(state)[claim.owner_id]) is theirs

    bigger = request(4, root_gb=20, owner=claim.owner_id)
    move = MoveRequest(build=bigger, migration="resize", old_flavor=claim.flavor)
    change = move_claim(state, call("resize_claim"), NOON, move).change
    after = state.fold(change)
    assert theirs.fold(change).usage == after.usage
    # The order does not matter: the assumed claim may be there first.
    late = replica_for(replica(state).fold(change), instances_of(state)[claim.owner_id])
    assert late.usage == after.usage
    assert late.claims == after.claims
    assert late.owners == after.owners


def test_what_only_the_agent_needs_is_not_described():
    described = description_of(device_host()).policy
    assert described.pci.specs == ()
    assert described.pci.aliases == device_host().policy.pci.aliases
