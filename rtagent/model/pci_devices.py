"""All devices of a host, by address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from immutables import Map

from rtagent.model.device import PciDevice


class PciDevices(Mapping[str, PciDevice]):
    """Immutable, and shared by all states between two changes of the host, so that what follows
    from them (`remembered`) is worked out once for all of these."""

    def __init__(self, known: Mapping[str, PciDevice] = Map()) -> None:
        self._known: Map[str, PciDevice] = known if isinstance(known, Map) else Map(known)

    def changed(self, gone: Sequence[str], new: Sequence[PciDevice]) -> PciDevices:
        """Without what is gone (addresses), and with what is new or changed."""
        if not gone and not new:
            return self
        after = self._known.mutate()
        for address in gone:
            del after[address]
        for device in new:
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
