"""DriverHost: a `Hypervisor` that knows what the virt driver reported last."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.model.guest import DomainDocument, GuestLayout
from rtagent.model.metric import CpuUse
from rtagent.model.observation import Observation
from rtagent.ports import HostIdentity


class DriverHost:
    """Asks nothing by itself: nova-compute asks its driver.

    :param read: returns what the driver has reported last.
    """

    def __init__(self, hostname: str, read: Callable[[], Observation]) -> None:
        self._hostname, self._read = hostname, read

    def identity(self) -> HostIdentity:
        return HostIdentity(hostname=self._hostname, host_uuid="")

    def observe(self) -> Observation:
        return self._read()

    def document(self, uuid: str) -> DomainDocument | None:
        return None

    def cpu_use(self) -> CpuUse:
        return CpuUse()

    def guest(self, uuid: str) -> GuestLayout | None:
        return None

    def start(self, on_event: Callable[[str], None]) -> None:
        """Do nothing: nova-compute starts the audits."""

    def stop(self) -> None:
        """Do nothing."""
