"""The life of an operator: drains, quarantines, and changes of the hosts."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.chaos.callers import flavors
from tests.chaos.callers.domains import Domains
from tests.chaos.callers.step import Life, Part, Step

#: Addresses of devices of the simulated hosts, and their names in libvirt.
DEVICES = {
    "0000:08:00.0": "pci_0000_08_00_0",
    "0000:88:00.0": "pci_0000_88_00_0",
    "0000:20:02.0": "pci_0000_20_02_0",
    "0000:20:02.1": "pci_0000_20_02_1",
}


class OperatorLife:
    """One piece of work at one host. It leaves the host as it was."""

    def __init__(self, rng: random.Random, hosts: Sequence[str], domains: Domains) -> None:
        self._rng, self._domains = rng, domains
        self._host = rng.choice(hosts)

    def run(self) -> Life:
        """Yield the calls of the whole life."""
        work: Sequence[Callable[[], Part]] = (
            self._drain,
            self._quarantine,
            self._foreign,
            self._look,
        )
        if self._domains.is_simulated(self._host):
            work = (*work, self._plug)
        yield from self._rng.choice(work)()

    def _step(self, method: str, **arguments: Any) -> Step:
        operation_id = flavors.new_uuid(self._rng)
        return Step(host=self._host, method=method, arguments=arguments, operation_id=operation_id)

    def _read(self, method: str, **arguments: Any) -> Step:
        return Step(host=self._host, method=method, arguments=arguments)

    def _wait(self) -> Part:
        """Let some time pass."""
        for _ in range(self._rng.randrange(1, 5)):
            yield self._read("ping")

    def _drain(self) -> Part:
        yield self._step("drain_node", reason="maintenance")
        yield from self._wait()
        yield self._step("undrain_node")

    def _quarantine(self) -> Part:
        address = self._rng.choice(list(DEVICES))
        yield self._step("quarantine_pci_device", address=address, reason="it fails")
        yield from self._wait()
        yield self._step("clear_pci_device", address=address)

    def _foreign(self) -> Part:
        uuid = flavors.new_uuid(self._rng)
        self._domains.start_foreign(self._host, uuid)
        try:
            yield from self._wait()
        finally:
            self._domains.stop(self._host, uuid)

    def _plug(self) -> Part:
        """Take a device out, and plug it in again."""
        taken = self._domains.unplug(self._host, [self._rng.choice(list(DEVICES.values()))])
        try:
            yield from self._wait()
        finally:
            self._domains.plug(self._host, taken)

    def _look(self) -> Part:
        yield self._read("get_claims_for_host")
        yield self._read("update_available_resource")
        yield self._read("get_node")
