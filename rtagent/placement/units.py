"""Specific resources, as Placement is told of them: virtual GPUs and other mediated devices, which
devices make, and persistent memory, which the host itself has. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rtagent.model.claim import SPECIFIC
from rtagent.model.host import HostState
from rtagent.pci.holds import holders, offered
from rtagent.placement.child import child, whole
from rtagent.placement.provider import Provider, Record

#: Provider and resource class.
_Pool = tuple[str, str]


def root_units(state: HostState) -> Mapping[str, Record]:
    """By class, what the root provider has."""
    return dict(_records(state).get("", {}))


def unit_providers(state: HostState) -> Iterator[Provider]:
    """One for each device that makes them, named as Nova does, after libvirt's name of it."""
    for address, records in sorted(_records(state).items()):
        if address:
            yield child(state.node, "pci_" + re.sub("[:.]", "_", address), records)


def _records(state: HostState) -> Mapping[str, Mapping[str, Record]]:
    """By provider and class. What is claimed is counted though it may have gone: its allocation is
    there. What is not claimed and not to be had is reserved."""
    taken = {name for kind, name in state.units if kind == SPECIFIC}
    used = holders(state)
    free = {name for each in offered(state) for name in each.identifiers if name not in used}
    records: dict[str, dict[str, Record]] = {}
    for (provider, resource_class), names in sorted(_pools(state).items()):
        reserved = len(names - taken - free)
        records.setdefault(provider, {})[resource_class] = whole(len(names), reserved)
    return records


def _pools(state: HostState) -> Mapping[_Pool, set[str]]:
    """The identifiers of each, of those that have any."""
    pools: dict[_Pool, set[str]] = {}
    for each in state.specific:
        for name in each.identifiers:
            pools.setdefault((each.provider, each.resource_class), set()).add(name)
    for claim in state.claims.values():
        for unit in claim.resources:
            pools.setdefault((unit.provider, unit.resource_class), set()).add(unit.identifier)
    return pools
