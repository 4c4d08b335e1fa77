"""What was seen of the host, and how well."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value
from rtagent.model.device import Device, Mdev
from rtagent.model.holding import Holding
from rtagent.model.numa_usage import Occupancy
from rtagent.model.topology import Topology


class Domain(Value, frozen=True, kw_only=True):
    """A domain as the hypervisor shows it.

    :ivar active: running, paused, or anything but shut off.
    :ivar vcpus: and memory_mb: what it has now (MB, rounded up); None when it could not be read:
        it is there, and no more is known.
    :ivar occupancy: CPUs, cells, pages and devices that it is bound to.
    """

    uuid: str
    name: str
    active: bool
    vcpus: int | None
    memory_mb: int | None
    occupancy: Occupancy = Occupancy()

    def holding(self) -> Holding | None:
        """What it holds by itself; None when it could not be read."""
        if self.vcpus is None or self.memory_mb is None:
            return None
        return Holding(
            domain_uuid=self.uuid,
            name=self.name,
            active=self.active,
            vcpus=self.vcpus,
            memory_mb=self.memory_mb,
            occupancy=self.occupancy,
        )


class Problem(Value, frozen=True, kw_only=True):
    """One item that could not be read: quarantined and reported, the rest goes on.

    :ivar item: what it was (``domain <uuid>``, ``storage <path>``).
    """

    item: str
    message: str


class Observation(Value, frozen=True, kw_only=True):
    """One look at the host.

    :ivar domains: by uuid, running or defined. :ivar complete: the connection held from the listing
        to the last read, so that what is not here was not there.
    :ivar topology: None when the host itself could not be read.
    :ivar devices: every PCI device of the host; None when they could not be listed.
    :ivar mdevs: mediated devices that exist.
    :ivar disk_available_least: GB free less what sparse disks may still grow to (Nova's meaning).
    """

    domains: Mapping[str, Domain]
    complete: bool
    topology: Topology | None = None
    devices: tuple[Device, ...] | None = None
    mdevs: tuple[Mdev, ...] = ()
    disk_available_least: int | None = None
    problems: tuple[Problem, ...] = ()
