"""The recorded PCI devices of a host, by address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from immutables import Map

from rtagent.model.device import PciDevice


class PciDevices(Mapping[str, PciDevice]):
    """An immutable mapping from addresses to devices.

    All states between two changes of the devices share one mapping, so that values derived from it
    (`derived`) are computed once for all these states.
    """

    def __init__(self, known: Mapping[str, PciDevice] = Map()) -> None:
        self._known: Map[str, PciDevice] = known if isinstance(known, Map) else Map(known)

    def changed(self, removals: Sequence[str], puts: Sequence[PciDevice]) -> PciDevices:
        """Return the mapping without the removed addresses, with new and changed devices."""
        if not removals and not puts:
            return self
        after = self._known.mutate()
        for address in removals:
            del after[address]
        for device in puts:
            after[device.address] = device
        return PciDevices(after.finish())

    def __getitem__(self, address: str) -> PciDevice:
        return self._known[address]

    def __contains__(self, address: object) -> bool:
        return address in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"PciDevices({self._known!r})"
