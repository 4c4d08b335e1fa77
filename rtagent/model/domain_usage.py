"""The observed usage of domains."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.mem_encryption import pool
from rtagent.model.policy import NumaPolicy
from rtagent.model.usage import NOTHING, NumaUsage, Usage


class HostResource(enum.StrEnum):
    """A kind of host resource that may be unknown of a domain. The value is its name in databases
    and documents.
    """

    #: The number of its vCPUs, or of its MB.
    SIZES = "sizes"
    #: The host CPUs to which it is confined.
    CPUS = "cpus"
    #: The memory that is bound to a cell.
    CELLS = "cells"
    #: Pages of an explicit size.
    PAGES = "pages"
    #: PCI devices, mediated devices and persistent memory namespaces.
    DEVICES = "devices"
    #: The encryption of its memory.
    ENCRYPTION = "encryption"


class Occupancy(Value, frozen=True, kw_only=True):
    """The host's CPUs, cells, pages and devices that a domain is bound to, claimed or not.

    :ivar pcpus: host CPUs to which its vCPUs or its emulator are confined.
    :ivar vcpus: the host CPUs of each vCPU that is confined to some.
    :ivar memory_mb: MB by cell, of memory that is bound to one cell.
    :ivar pages: pages by cell, by size (KiB).
    :ivar devices: addresses of PCI devices.
    :ivar mdevs: uuids of mediated devices.
    :ivar mdev_parents: addresses of the parent devices of these.
    :ivar namespaces: names of persistent memory namespaces.
    :ivar mem_encryption: the model by which its memory is encrypted, or None.
    :ivar unknown: what may be more than these fields say, because a part of the domain's document
        cannot be read.
    """

    pcpus: frozenset[int] = frozenset()
    vcpus: tuple[frozenset[int], ...] = ()
    memory_mb: Mapping[int, int] = {}
    pages: Mapping[int, Mapping[int, int]] = {}
    devices: frozenset[str] = frozenset()
    mdevs: frozenset[str] = frozenset()
    mdev_parents: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    mem_encryption: str | None = None
    unknown: frozenset[HostResource] = frozenset()

    @property
    def usage(self) -> NumaUsage:
        """The NUMA usage that the domain counts for."""
        return NumaUsage(
            pinned=dict.fromkeys(self.pcpus, 1),
            memory_mb=self.memory_mb,
            pages={
                (cell, size): number
                for cell, pools in self.pages.items()
                for size, number in pools.items()
            },
        )


#: The occupancy of a domain that is bound to nothing. Most are.
UNBOUND = Occupancy()
#: The kinds that are unknown of a domain whose document cannot be read.
EVERY_KIND = frozenset(HostResource) - {HostResource.SIZES}


#: The fields of `Occupancy` of which each kind consists.
_FIELDS: Mapping[HostResource, tuple[str, ...]] = {
    HostResource.CPUS: ("pcpus",),
    HostResource.CELLS: ("memory_mb",),
    HostResource.PAGES: ("pages",),
    HostResource.DEVICES: ("devices", "mdevs", "mdev_parents", "namespaces"),
    HostResource.ENCRYPTION: ("mem_encryption",),
}


class DomainUsage(Value, frozen=True, kw_only=True):
    """A domain without a claim here (foreign, an "orphan"), or one that differs from every claim of
    its owner (drift).

    It is durable, so that a restart without libvirt still counts it.

    :ivar domain_uuid: libvirt's uuid. It equals the owner's id if the owner has claims here.
    :ivar active: the domain runs or is paused. A domain that is only defined uses nothing yet.
    :ivar memory_mb: MB, rounded up.
    :ivar occupancy: the CPUs, cells, pages and devices that it is bound to.
    """

    domain_uuid: str
    name: str
    active: bool
    vcpus: int
    memory_mb: int
    occupancy: Occupancy = UNBOUND

    def completed(self, before: DomainUsage | None) -> DomainUsage:
        """Return the usage in which all that is unknown is at least what it was before."""
        unknown = self.occupancy.unknown
        if before is None or not unknown:
            return self
        fields = (name for kind in unknown for name in _FIELDS.get(kind, ()))
        old, new = before.occupancy, self.occupancy
        larger = {name: _larger(getattr(old, name), getattr(new, name)) for name in fields}
        sizes = (self, before) if HostResource.SIZES in unknown else (self,)
        return replace(
            self,
            vcpus=max(each.vcpus for each in sizes),
            memory_mb=max(each.memory_mb for each in sizes),
            occupancy=replace(new, **larger),
        )

    def usage(self, policy: NumaPolicy, floating: frozenset[int] = frozenset()) -> Usage:
        """Return the current usage of the domain.

        A vCPU that is confined to dedicated CPUs uses these, and no shared ones. They are counted
        by CPU, in `Usage.numa`, because domains may share them. A thread that is confined to shared
        CPUs floats there, and keeps no other from them.

        :param floating: CPUs on which the claims of its owner let it float.
        """
        if not self.active:
            return NOTHING
        dedicated = policy.cpu_dedicated_set or frozenset()
        floating |= policy.shared(self.occupancy.pcpus) - dedicated
        pinned = sum(cpus <= dedicated - floating for cpus in self.occupancy.vcpus)
        numa = self.occupancy.usage
        if not floating.isdisjoint(numa.pinned):
            numa = replace(numa, pinned=dict.fromkeys(numa.pinned.keys() - floating, 1))
        model = self.occupancy.mem_encryption
        return Usage(
            vcpus=max(0, self.vcpus - pinned),
            memory_mb=self.memory_mb,
            numa=numa,
            quantities={} if model is None else {pool(model): 1},
        )


def _larger(old: Any, new: Any) -> Any:
    """Return the union of two sets, the larger of two numbers or of each number of two mappings;
    or the second value, if there is one.
    """
    if isinstance(new, Mapping):
        return {key: _larger(old.get(key), new.get(key)) for key in {**old, **new}}
    if isinstance(new, int) and isinstance(old, int):
        return max(old, new)
    if isinstance(new, frozenset):
        return old | new
    return old if new is None else new
