"""The state of a host, built from its node's state."""

from __future__ import annotations

from msgspec.structs import replace

from rtagent import claims
from rtagent.allocation.allocate import allocate
from rtagent.allocation.requirements import from_request
from rtagent.model.decision import Refused
from rtagent.model.stored import Position
from rtagent.pci.allocations import device_allocations
from rtagent.scheduler.host_state import HostState, replica_fields
from rtagent.state.compute_node import compute_node
from tests.support.host_states import fleet_node, host_state
from tests.support.hosts import NOON, call, host, request, uid


def built(state, asked):
    return state.fold(claims.instance_claim(state, call(), NOON, asked).change)


def test_quantities_are_those_of_the_nodes_record():
    facts = {"project_id": "p", "vm_state": "building"}
    state = host(reserved_memory_mb=512, reserved_disk_mb=1024, reserved_cpus=1)
    state = built(state, request(2, 4096, 10, instance=facts))
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
    used = built(built(later, guest), replace(guest, instance=replace(guest.instance, uuid=uid())))
    assert _made(used, _made(later, first)).available_devices == 0
    assert isinstance(allocate(used, uid(), from_request(guest, used.policy)), Refused)
