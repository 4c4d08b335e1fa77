"""A consumer's shares of the providers of PCI devices, which a claim follows."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value
from rtagent.pci.requests import DeviceRequest


class DeviceShares(Value, frozen=True, kw_only=True):
    """The devices that Placement allocated to a consumer, as numbers by provider.

    A provider is named by an address: that of its device, or of the physical function whose virtual
    functions it counts.

    :ivar numbers: by provider: how many of its devices the claim gets. The claim gets exactly so
        many, and in addition only devices that are not reported to Placement.
    :ivar providers: the provider of each device that is reported, by the device's address.
    :ivar mapped: by request id: the providers from which the devices of a request come.
    """

    numbers: Mapping[str, int]
    providers: Mapping[str, str]
    mapped: Mapping[str, frozenset[str]] = {}

    @property
    def total(self) -> int:
        """The number of devices of all providers."""
        return sum(self.numbers.values())

    def accept(self, address: str, request: DeviceRequest) -> bool:
        """Return whether a request may get a device."""
        provider, mapped = self.providers.get(address), self.mapped.get(request.request_id)
        if provider is None:
            return mapped is None
        return self.number(address) > 0 and (mapped is None or provider in mapped)

    def is_reported(self, address: str) -> bool:
        """Return whether a device is reported to Placement."""
        return address in self.providers

    def number(self, address: str) -> int:
        """Return how many devices the claim gets of the provider of a device."""
        return self.numbers.get(self.providers.get(address, ""), 0)
