"""Reports of a node, and what schedulers make of them: replicas, and the states of hosts."""

import pytest
from msgspec.structs import replace

from rtagent.allocation.allocate import allocate
from rtagent.allocation.requirements import from_request
from rtagent.claims import instance_claim
from rtagent.lifecycle.moves import move_claim
from rtagent.model.change import Change
from rtagent.model.claim import LIVE_MIGRATION, OUTGOING
from rtagent.model.decision import Granted, Refused
from rtagent.model.device import PciDevices
from rtagent.model.migration import MoveRequest
from rtagent.model.node_state import NodeState
from rtagent.model.stored import Position
from rtagent.pci.allocations import device_allocations
from rtagent.scheduler.host_state import HostState, replica_fields
from rtagent.scheduler.replica import replica_for, replica_of
from rtagent.scheduler.report import (
    description_of,
    digest_of,
    instances_of,
    report_of,
    without_devices,
)
from rtagent.state.compute_node import compute_node
from tests.support import stored_values as stored
from tests.support.device_states import (
    PMEM,
    VGPU_TYPE,
    built,
    device_host,
    policy,
    running,
    with_builds,
)
from tests.support.host_states import fleet_node, host_state
from tests.support.hosts import NOON, call, domain_usage, host, observed, request, uid
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record

ONE, TWO = stored.claim(1), stored.claim(2)
STATE = stored.folded(NodeState(node=stored.NODE, policy=stored.POLICY), stored.created(ONE, TWO))


def new_objects(before, after):
    """The instances of the later state that are not the objects of the earlier one."""
    known = instances_of(before)
    now = instances_of(after, known)
    assert now == instances_of(after)
    return [info.uuid for info in now.values() if known.get(info.uuid) is not info]


def test_only_the_instance_of_a_changed_claim_or_domain_is_made_anew():
    assert new_objects(STATE, STATE) == []
    assert new_objects(STATE, stored.folded(STATE, stored.changed(ONE, tag="t"))) == [ONE.owner_id]
    assert new_objects(STATE, observed(STATE, domain_usage(ONE.owner_id))) == [ONE.owner_id]


def test_instance_whose_move_has_ended_is_made_anew_although_its_claims_are_the_same():
    def move(status):
        fields = {"instance_uuid": ONE.owner_id, "migration_type": LIVE_MIGRATION}
        record = stored.migration(1, status=status, **fields)
        return Change(cause="move", at=stored.NOW, migrations=(record,))

    leaves = stored.changed(ONE, state=OUTGOING, migration_uuid=stored.migration(1).uuid)
    before = stored.folded(STATE, move("running"), leaves)
    after = stored.folded(before, move("completed"))
    assert instances_of(before)[ONE.owner_id].here
    assert not instances_of(after, instances_of(before))[ONE.owner_id].here


@pytest.fixture
def state():
    """A host with a GPU, a GPU for two virtual ones, and persistent memory."""
    devices = record([gpu(GPU_0), gpu(GPU_1, 1, vgpus=2)])
    made = device_host(devices, pci=policy(mdev_types=(VGPU_TYPE,)))
    return replace(
        made,
        devices=PciDevices(record([gpu(GPU_0)])),  # no specification matches the other one
        resource_inventories=(*made.resource_inventories, PMEM),
    )


@pytest.mark.parametrize(
    ("specs", "outcome"),
    [
        ({"pci_passthrough:alias": "gpu:1"}, Refused),
        ({"resources:VGPU": "1"}, Refused),
        ({"hw:pmem": "4GB"}, Granted),
    ],
    ids=str,
)
def test_a_host_that_gives_no_devices_gives_nothing_that_is_made_from_one(state, specs, outcome):
    wanted = request(extra_specs=specs)
    assert isinstance(instance_claim(state, call(), NOON, wanted), Granted)
    without = without_devices(state, "they could not be listed")
    assert isinstance(instance_claim(without, call(), NOON, wanted), outcome)


def replica(state):
    description = description_of(state)
    return replica_of(report_of(state, digest_of(description)), description)


def test_classes_whose_inventory_is_gone_are_known():
    state, _ = built(device_host(pci=policy(pmem=(PMEM,))), extra_specs={"hw:pmem": "4GB"})
    gone = replace(state, resource_inventories=())
    assert replica(gone).former_pools == {("", PMEM.resource_class)}
    assert replica(state).former_pools == frozenset()


@pytest.mark.parametrize("reuse", [False, True])
def test_an_owner_counts_once_also_with_an_assumed_claim(reuse):
    state, claimed = built(host(same_host_resize_reuse=reuse), vcpus=3, root_gb=10)
    state = observed(running(state, claimed), domain_usage(claimed.owner_id, 5, 64))
    info = instances_of(state)[claimed.owner_id]
    theirs = replica_for(replica(state), info)
    assert theirs.usage == state.usage
    assert theirs.usage_of(claimed.owner_id) == state.usage_of(claimed.owner_id)
    assert replica_for(theirs, info) is theirs

    bigger = request(4, root_gb=20, owner=claimed.owner_id)
    move = MoveRequest(build=bigger, migration="resize", old_flavor=claimed.flavor)
    change = move_claim(state, call("resize_claim"), NOON, move).change
    after = state.fold(change)
    assert theirs.fold(change).usage == after.usage
    # The order does not matter: the assumed claim may be there first.
    late = replica_for(replica(state).fold(change), info)
    for field in ("usage", "claims", "owners"):
        assert getattr(late, field) == getattr(after, field)


def test_what_only_the_agent_needs_is_not_described():
    described = description_of(device_host()).policy
    assert described.pci.specs == ()
    assert described.pci.aliases == device_host().policy.pci.aliases


def test_quantities_are_those_of_the_nodes_record():
    facts = {"project_id": "p", "vm_state": "building"}
    state = host(reserved_memory_mb=512, reserved_disk_mb=1024, reserved_cpus=1)
    state = with_builds(state, request(2, 4096, 10, instance=facts))
    record, made = compute_node(state), host_state(state=state)
    assert (made.vcpus_total, made.vcpus_used) == (record["vcpus"], record["vcpus_used"]) == (8, 3)
    assert made.free_ram_mb == record["free_ram_mb"] == 16384 - 512 - 4096
    assert made.total_usable_ram_mb == record["memory_mb"]
    assert (made.total_usable_disk_gb, made.disk_mb_used) == (100, 11 * 1024)
    assert made.free_disk_mb == 89 * 1024
    assert (made.num_instances, made.num_io_ops) == (1, 1)
    assert made.stats == record["stats"]
    assert made.numa_topology == record["numa_topology"]


def test_free_disk_is_at_most_what_the_file_system_has_left():
    state = host(reserved_disk_mb=1024)
    assert host_state(state=replace(state, disk_available_least=7)).free_disk_mb == 7 * 1024
    assert host_state(state=replace(state, disk_available_least=700)).free_disk_mb == 99 * 1024


def _made(state, before=None):
    position = Position(epoch=1, revision=1)
    return HostState(**replica_fields(state, before), base=position, version=1, seen=0.0)


def test_devices_are_derived_again_only_when_they_or_their_users_change():
    free = fleet_node()
    guest = request(1, 64, extra_specs={"pci_passthrough:alias": "vf:16"})
    first = _made(free)
    assert not isinstance(allocate(free, uid(), from_request(guest, free.policy)), Refused)
    later = replace(free, revision=free.revision + 1)
    assert _made(later, first).available_devices == first.available_devices
    assert device_allocations(later) is device_allocations(free)
    other = replace(guest.instance, uuid=uid())
    used = with_builds(with_builds(later, guest), replace(guest, instance=other))
    assert _made(used, _made(later, first)).available_devices == 0
    assert isinstance(allocate(used, uid(), from_request(guest, used.policy)), Refused)
