"""What Nova's rows and the claims of a host say, and whether they agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nova import context, objects
from nova.compute import task_states
from testtools import TestCase

from rtagent.model.claim import ATTACH, Claim

#: What an instance uses up, of `rows`.
_USED = ("vcpus", "memory_mb", "disk_gb", "pinned", "cpu_usage", "devices")


def rows(host: str) -> dict[str, Any]:
    """Return what Nova's rows say is used on a host."""
    node = objects.ComputeNode.get_by_nodename(context.get_admin_context(), host)
    cells = objects.NUMATopology.obj_from_db_obj(node.numa_topology).cells
    return {
        "vcpus": node.vcpus_used,
        "memory_mb": node.memory_mb_used,
        "disk_gb": node.local_gb_used,
        "guests": node.running_vms,
        "pinned": {cpu for cell in cells for cpu in cell.pinned_cpus},
        "cpu_usage": [cell.cpu_usage for cell in cells],
        "devices": _devices(node),
    }


def _devices(node: Any) -> dict[str, str]:
    """The instance of each device that is not available, by address."""
    found = objects.PciDeviceList.get_by_compute_node(context.get_admin_context(), node.id)
    return {row.address: row.instance_uuid for row in found if row.instance_uuid}


def owners(compute: Any) -> set[str]:
    """Return the instances that have claims on the host of a compute service."""
    return set(_state(compute).owners)


def assert_agreement(test: TestCase, compute: Any) -> None:
    """Assert that the claims are what Nova's rows say, and that Nova's own tracker, which counts
    instances and migrations anew, would write the same rows.
    """
    state, found = _state(compute), rows(compute.host)
    mains = [claim for claim in state.claims.values() if claim.kind != ATTACH]
    pins = [cpu for claim in mains for cpu in _pins(claim)]
    test.assertEqual(len(set(pins)), len(pins))
    test.assertEqual(found["pinned"], set(pins))
    test.assertEqual(found["vcpus"], sum(claim.flavor.vcpus for claim in mains))
    test.assertEqual(
        found["devices"],
        {device.address: claim.owner_id for claim in state.claims.values() for device in claim.pci},
    )
    _audit_by_nova(compute)
    counted = rows(compute.host)
    if _is_resized_here(compute.host):
        # Nova counts the CPUs of the end of such a resize, also while the guest has the old ones.
        counted["pinned"] = found["pinned"]
    if _comes_without_context(compute.host):
        # Nova counts no CPUs for such a guest, whatever was claimed.
        counted["pinned"] = found["pinned"]
    if _is_evacuated_to(compute.host):
        # Nova counts such an instance nowhere.
        counted |= {name: found[name] for name in _USED}
    if _has_reverted(compute.host):
        # Nova counts such an instance where it is no more, with the flavor that it gives up, and
        # nothing where it comes back to.
        counted |= {name: found[name] for name in _USED}
    test.assertEqual(found, counted)


def _is_resized_here(host: str) -> bool:
    """Whether a resize on the host itself has not ended, or has failed."""
    migrations = objects.MigrationList.get_in_progress_and_error(
        context.get_admin_context(), host, host
    )
    return any(each.source_node == each.dest_node for each in migrations)


def _comes_without_context(host: str) -> bool:
    """Whether a guest migrates live to the host, and has no migration context."""
    return any(
        migration.is_live_migration
        and instance.task_state == task_states.MIGRATING
        and instance.migration_context is None
        for migration, instance in _coming(host)
    )


def _is_evacuated_to(host: str) -> bool:
    """Whether the task of an evacuation to the host has ended, and the migration has not."""
    return any(
        (migration.migration_type, migration.status) == ("evacuation", "pre-migrating")
        and instance.task_state is None
        for migration, instance in _coming(host)
    )


def _coming(host: str) -> Iterator[tuple[Any, Any]]:
    """Yield the migrations to the host that go on or have failed, with their instances."""
    admin = context.get_admin_context()
    for each in objects.MigrationList.get_in_progress_and_error(admin, host, host):
        if each.dest_compute == host:
            deleted_too = admin.elevated(read_deleted="yes")
            yield each, objects.Instance.get_by_uuid(deleted_too, each.instance_uuid)


def _has_reverted(host: str) -> bool:
    """Whether a resize from the host or to it is reverted, and the instance is not back yet."""
    admin = context.get_admin_context()
    ended = objects.MigrationList.get_by_filters(admin, {"status": "reverted", "host": host})
    instances = [
        objects.Instance.get_by_uuid(admin.elevated(read_deleted="yes"), each.instance_uuid)
        for each in ended
    ]
    return any(each.task_state == task_states.RESIZE_REVERTING for each in instances)


def _audit_by_nova(compute: Any) -> None:
    tracker = compute.manager.rt
    (nova,) = (
        each for each in type(tracker).__mro__ if each.__module__ == "nova.compute.resource_tracker"
    )
    nova(compute.host, compute.driver).update_available_resource(
        context.get_admin_context(), compute.host
    )


def _state(compute: Any) -> Any:
    return compute.manager.rt.nodes[compute.host].state


def _pins(claim: Claim) -> set[int]:
    cells = claim.numa_topology.cells if claim.numa_topology else ()
    return {cpu for cell in cells for cpu in cell.cpu_pinning.values()}
