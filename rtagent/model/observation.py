"""Observation: what the hypervisor reported about the host, and how completely. Reboot: the time
after a reboot of the host for which guests are awaited.
"""

import enum
from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from rtagent.model.assignment import PmemNamespace
from rtagent.model.base import Value, made_from
from rtagent.model.claim import ACTIVE, Claim
from rtagent.model.device import NO_ROOT_PORTS, Device, Mdev, RootPorts
from rtagent.model.domain_usage import UNBOUND, DomainUsage, HostResource, Occupancy
from rtagent.model.topology import Topology


class Domain(Value, frozen=True, kw_only=True):
    """A domain as the hypervisor reports it.

    :ivar active: running, paused, or in any other state except shut off.
    :ivar vcpus: the current number; None: unknown.
    :ivar memory_mb: the current memory in MB, rounded up; None: unknown.
    :ivar occupancy: the CPUs, cells, pages and devices that it is bound to, and what is unknown.
    :ivar gone: it was listed, but was gone before it was read. Nothing is concluded about it.
    """

    uuid: str
    name: str
    active: bool
    vcpus: int | None
    memory_mb: int | None
    occupancy: Occupancy = UNBOUND
    gone: bool = False

    @property
    def readable(self) -> bool:
        """Whether everything about it is known."""
        sizes = self.vcpus, self.memory_mb
        return not self.gone and None not in sizes and not self.occupancy.unknown

    def domain_usage(self) -> DomainUsage | None:
        """Return the usage of the domain as far as it is known; None: it has gone."""
        if self.gone:
            return None
        occupancy = self.occupancy
        if self.vcpus is None or self.memory_mb is None:
            occupancy = replace(occupancy, unknown=occupancy.unknown | {HostResource.SIZES})
        return made_from(
            DomainUsage,
            self,
            domain_uuid=self.uuid,
            vcpus=self.vcpus or 0,
            memory_mb=self.memory_mb or 0,
            occupancy=occupancy,
        )


class Problem(Value, frozen=True, kw_only=True):
    """An item that could not be read. It is reported, and the observation continues.

    :ivar item: ``domain <uuid>``, ``storage <path>`` and others.
    """

    item: str
    message: str


class Observation(Value, frozen=True, kw_only=True):
    """One observation of the host.

    :ivar domains: by uuid, running or defined.
    :ivar complete: the connection held from the listing to the last read. A domain that is not in
        ``domains`` did not exist then.
    :ivar topology: None if the host itself could not be read.
    :ivar devices: all PCI devices of the host; None if they could not be listed.
    :ivar has_domains: False: the domains were not looked at, and ``domains`` is empty. Nothing is
        concluded about them, and ``complete`` is about the rest.
    :ivar has_devices: False: the devices were not looked at.
    :ivar mdevs: the mediated devices that exist. :ivar root_ports: those of `devices`.
    :ivar mdevs_of_others: True: another program creates the mediated devices, and claims may have
        any of them. False: claims have those that the agent creates, and those that it adopts.
    :ivar namespaces: the host's persistent memory namespaces; None if they could not be listed.
    :ivar disk_available_least: GB: free space minus the growth of sparse disks (Nova's meaning).
    """

    domains: Mapping[str, Domain]
    complete: bool
    has_domains: bool = True
    has_devices: bool = True
    topology: Topology | None = None
    devices: tuple[Device, ...] | None = None
    mdevs: tuple[Mdev, ...] = ()
    mdevs_of_others: bool = False
    root_ports: RootPorts = NO_ROOT_PORTS
    namespaces: tuple[PmemNamespace, ...] | None = None
    disk_available_least: int | None = None
    problems: tuple[Problem, ...] = ()


class NeverObserved(enum.Enum):
    """There was no complete observation of the host yet."""

    NEVER_OBSERVED = "never observed"


NEVER_OBSERVED: Final = NeverObserved.NEVER_OBSERVED
#: Domains by uuid, as they were in the last complete observation.
ObservedDomains = Mapping[str, Domain] | NeverObserved


#: The flag of a claim whose guest is awaited.
FLAG = "reboot"


class Reboot(Value, frozen=True, kw_only=True):
    """:ivar at: when the agent first ran after the reboot.
    :ivar until: when guests are no longer awaited, on the monotonic clock.
    """

    at: datetime
    until: float

    def awaits(self, claim: Claim) -> bool:
        """Return whether the guest of a claim may not be back yet: it was here before."""
        return claim.state == ACTIVE and claim.suspect is None and claim.created_at < self.at

    def awaited(self, claims: Iterable[Claim], present: Container[str]) -> frozenset[str]:
        """Return the claims whose guests are not back. :param present: uuids of domains."""
        return frozenset(
            each.uuid for each in claims if self.awaits(each) and each.owner_id not in present
        )


def reboot(
    rebooted_at: datetime | None, now: datetime, monotonic: float, timeout: int
) -> Reboot | None:
    """Return the reboot after which guests are still awaited; None: there is none.

    :param timeout: seconds. A clock that was set back since makes it no longer than this.
    """
    if rebooted_at is None:
        return None
    left = timeout - max(0.0, (now - rebooted_at).total_seconds())
    return Reboot(at=rebooted_at, until=monotonic + left) if left > 0 else None
