"""Requests to adopt what an instance has on the host of `device_states` already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rtagent.model.adopt_request import AdoptRequest
from rtagent.model.assigned_resources import AssignedResource
from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.device import STANDARD, AssignedDevice
from rtagent.model.flavor import Flavor
from rtagent.model.instance import Instance
from tests.support.device_states import PMEM
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_IDS


def stated(
    owner: str | None = None,
    *,
    cpus: Iterable[int] = (),
    devices: Iterable[str | AssignedDevice] = (),
    namespaces: Iterable[str] = (),
    resources: Iterable[AssignedResource] = (),
    flavor: Mapping[str, Any] | None = None,
    memory_mb: int = 1024,
    **more: Any,
) -> AdoptRequest:
    """Return a request for a guest with one vCPU for each of these host CPUs, or else one.

    :param devices: addresses of GPUs, or devices. :param more: other fields of the request.
    """
    pinning = dict(enumerate(cpus))
    cell = CellAssignment(
        id=min(pinning.values(), default=0) // 4, memory=memory_mb, cpu_pinning=pinning
    )
    size = {"vcpus": max(1, len(pinning)), "memory_mb": memory_mb, **(flavor or {})}
    return AdoptRequest(
        instance=Instance(uuid=owner or uid(), flavor=Flavor(**size)),
        numa_topology=Assignment(cells=(cell,)) if pinning else None,
        devices=tuple(given(each) if isinstance(each, str) else each for each in devices),
        resources=(*map(_namespace, namespaces), *resources),
        **more,
    )


def given(address: str, ids: Mapping[str, str] = GPU_IDS, **more: Any) -> AssignedDevice:
    """Return a device as a caller states it."""
    fields = {"dev_type": STANDARD, "request_id": "r", **ids, **more}
    return AssignedDevice(address=address, **fields)


def _namespace(name: str) -> AssignedResource:
    return AssignedResource(resource_class=PMEM.resource_class, identifier=name)
