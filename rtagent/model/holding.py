"""What a domain uses that no claim accounts for."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.model.numa_usage import Occupancy
from rtagent.model.usage import Usage


class Holding(Value, frozen=True, kw_only=True):
    """A domain that is here without a claim (foreign, an "orphan"), or that differs from every
    claim of its owner (drift). Durable, so that a restart without libvirt still counts it.

    :ivar domain_uuid: libvirt's uuid, which is the owner's id if it has claims here.
    :ivar active: it runs (or is paused); a domain that is only defined uses nothing yet.
    :ivar memory_mb: MB, rounded up. :ivar occupancy: CPUs, cells, pages and devices that it is
        bound to.
    """

    domain_uuid: str
    name: str
    active: bool
    vcpus: int
    memory_mb: int
    occupancy: Occupancy = Occupancy()

    @property
    def usage(self) -> Usage:
        """What it uses now."""
        if not self.active:
            return Usage()
        return Usage(vcpus=self.vcpus, memory_mb=self.memory_mb, numa=self.occupancy.usage)
