"""Persistent memory for guests."""

from __future__ import annotations

import dataclasses

from rtagent.model.assigned_resources import AssignedResource, PmemNamespace
from tests.support.guests import Granted


def namespace(number: int, size_mb: int) -> PmemNamespace:
    """Return a namespace of the host, like ``ns0`` with ``/dev/dax0.0``."""
    path = f"/dev/dax{number}.0"
    return PmemNamespace(name=f"ns{number}", path=path, size_kb=size_mb * 1024, align_kb=2048)


def with_namespaces(claim: Granted, *sizes_mb: int) -> Granted:
    """Return the claim with namespaces of these sizes."""
    found = (namespace(number, size) for number, size in enumerate(sizes_mb))
    units = (
        AssignedResource(
            resource_class="CUSTOM_PMEM_NAMESPACE_4GB",
            identifier=each.name,
            namespace=each,
        )
        for each in found
    )
    return dataclasses.replace(claim, resources=tuple(units))
