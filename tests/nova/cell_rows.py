"""Nova's cells, and what they have of servers and hosts. Run in the environment with Nova."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nova import context, objects
from nova.conf import CONF
from nova.db import migration
from nova.objects import host_mapping
from oslo_utils import uuidutils


def create(ctxt: Any, cell0: str) -> None:
    """Create the tables of Nova's databases, and its two cells. :param cell0: its database."""
    migration.db_sync(database="api")
    cells = (
        ("cell0", objects.CellMapping.CELL0_UUID, "none:///", cell0),
        ("cell1", uuidutils.generate_uuid(), CONF.transport_url, CONF.database.connection),
    )
    for name, uuid, transport_url, database in cells:
        cell = objects.CellMapping(
            ctxt, uuid=uuid, name=name, transport_url=transport_url, database_connection=database
        )
        cell.create()
        with context.target_cell(ctxt, cell) as there:
            migration.db_sync(context=there)


def discover_hosts(ctxt: Any) -> None:
    """Let the cells have the hosts that have come."""
    host_mapping.discover_hosts(ctxt)


def servers(ctxt: Any) -> list[dict[str, Any]]:
    """Return the servers of all cells. ``pins``: the host CPUs of each, as Nova's row has them."""
    return [
        {
            "uuid": each.uuid,
            "name": each.display_name,
            "vm_state": each.vm_state,
            "task_state": each.task_state,
            "host": each.host,
            "memory_mb": each.memory_mb,
            "pins": _pins(each.numa_topology),
            "fault": each.fault.message if each.fault else None,
        }
        for there in _cells(ctxt)
        for each in objects.InstanceList.get_all(there, expected_attrs=["fault"])
    ]


def nodes(ctxt: Any) -> dict[str, dict[str, Any]]:
    """Return what the row of each host says is used. ``devices``: the owners of PCI devices."""
    return {
        each.host: {
            "pins": _pinned(each),
            "memory_mb": each.memory_mb_used,
            "devices": _owners(there, each),
        }
        for there in _cells(ctxt)
        for each in objects.ComputeNodeList.get_all(there)
    }


def _cells(ctxt: Any) -> Iterator[Any]:
    for cell in objects.CellMappingList.get_all(ctxt):
        with context.target_cell(ctxt, cell) as there:
            yield there


def _pins(topology: Any) -> list[int]:
    cells = topology.cells if topology else ()
    return sorted(cpu for cell in cells for cpu in (cell.cpu_pinning or {}).values())


def _pinned(node: Any) -> list[int]:
    cells = objects.NUMATopology.obj_from_db_obj(node.numa_topology).cells
    return sorted(cpu for cell in cells for cpu in cell.pinned_cpus)


def _owners(there: Any, node: Any) -> dict[str, str]:
    devices = objects.PciDeviceList.get_by_compute_node(there, node.id)
    return {each.address: each.instance_uuid for each in devices if each.instance_uuid}
