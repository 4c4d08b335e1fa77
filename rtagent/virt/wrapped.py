"""WrappedHypervisor: the base of hypervisors that show another one differently."""

from collections.abc import Callable

from rtagent.model.guest import DomainDocument, GuestLayout
from rtagent.model.metric import CpuUse
from rtagent.model.observation import Observation
from rtagent.ports import HostIdentity, Hypervisor


class WrappedHypervisor:
    """A `Hypervisor` that passes every call on."""

    def __init__(self, hypervisor: Hypervisor) -> None:
        self._hypervisor = hypervisor

    def identity(self) -> HostIdentity:
        return self._hypervisor.identity()

    def observe(self) -> Observation:
        return self._hypervisor.observe()

    def document(self, uuid: str) -> DomainDocument | None:
        return self._hypervisor.document(uuid)

    def cpu_use(self) -> CpuUse:
        return self._hypervisor.cpu_use()

    def guest(self, uuid: str) -> GuestLayout | None:
        return self._hypervisor.guest(uuid)

    def start(self, on_event: Callable[[str], None]) -> None:
        self._hypervisor.start(on_event)

    def stop(self) -> None:
        self._hypervisor.stop()
